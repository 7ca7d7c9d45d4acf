"""Plans: what a query is, checked when it is written.

nodes.py reads as a grammar; properties.py says what is known of each node's output stream; explain.py
shows a plan. How a plan is run is not here (operators, runtime), nor what it means (oracle).
"""
