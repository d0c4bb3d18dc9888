"""A model of time and traffic: what a plan moves over which link, and when; never measured."""
