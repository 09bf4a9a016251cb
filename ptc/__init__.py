"""The program runtime: one JavaScript program, in a fresh process, against named host functions."""
