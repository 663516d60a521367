"""Why memory ran out: what was alive, who holds it, and the line that would have helped."""
