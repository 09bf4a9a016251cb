"""`python -m jsrun`: the command line."""

from jsrun.cli import main

if __name__ == "__main__":
    main()
