"""What every analysis and every rule is made with: routines and facts, the forms of instructions, rules, findings and their reports."""
