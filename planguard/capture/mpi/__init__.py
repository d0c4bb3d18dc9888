"""MPI programs of their own, in any language: recorded by an interposer of the MPI calls."""
