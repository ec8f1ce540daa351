"""The program `handrail`, and `python -m handrail`. Ctrl-C is heard from the first import of the command line on."""

import sys

__all__ = ["main"]


def main() -> None:
    """Do what the command line says, and exit with its code; 130 also where it was cancelled before it could begin."""
    try:
        from handrail.apps.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("handrail: cancelled by Ctrl-C, before the run had started\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
