"""What a call moves in the words of the program, and what its order rests on."""
