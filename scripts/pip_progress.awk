# Turns pip's report into a line for each tenth package, and shows everything when pip fails.
{ report = report $0 "\n" }
/^(Collecting|Obtaining) / { if (++packages % 10 == 0) { print "  " packages " packages found"; fflush() } }
/^Installing collected/ { print "  installing " packages " packages"; fflush() }
/^Successfully installed/ { done = 1; print "  installed"; fflush() }
END { if (!done) { printf "%s", report; exit 1 } }
