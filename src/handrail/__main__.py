"""`python -m handrail`."""

from handrail.apps.cli import main

main()
