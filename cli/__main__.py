"""python -m lmzip.cli: the command line for launchers that take a module, such as torchrun."""

from lmzip.cli.app import main

if __name__ == "__main__":
    main()
