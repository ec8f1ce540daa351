"""What is run: each module measures one thing once and prints one line of JSON, numbers by subject.

They run in environments that have handrail, or a peer, or both; so each imports what it measures where it needs it.
"""
