"""`python -m tickstream.cli`, the same as the command `tickstream`."""

from tickstream.cli.main import main

if __name__ == "__main__":
    main()
