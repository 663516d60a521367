/* nearest.h - the known name that a mistyped one was probably meant to be. */
#pragma once

/* Offer the known names one by one; the best by edit distance (insert, delete, replace) is found, the first one offered on a
 * tie. O(length^2) per name; names over 256 bytes are passed over. */
typedef struct nearest {
    const char *word, *best;
    int distance;
} nearest;

nearest nearest_to(const char *word);
void nearest_offer(nearest *n, const char *name);
/* Returns the best name. NULL if none is close: the distance must be at most a third of the word's length, and 2 is close for
 * words over 3. */
const char *nearest_found(const nearest *n);
