/* nearest.h - the known name that a mistyped one was probably meant to be. */
#pragma once

/* Finds the name of smallest edit distance (insert, delete, replace) among names that are offered one by one; of
 * several the first. O(length^2) per name; names over 256 bytes are skipped. */
typedef struct nearest {
    const char *word, *best;
    int distance;
} nearest;

nearest nearest_to(const char *word);
void nearest_offer(nearest *n, const char *name);
/* Returns the best name. NULL if none is close: its distance may be a third of the word's length, and 2 for words over
 * 3. */
const char *nearest_found(const nearest *n);
