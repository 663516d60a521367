/* nearest.h - finds the known name that a misspelled word probably means. */
#pragma once

/* A search for the known name with the smallest edit distance to a word. Insertions, deletions, replacements and swaps of
 * neighbouring letters count 1 each. Names are passed one by one; of equally near names the first is chosen. O(length^2) per
 * name. Names over 256 bytes are skipped. */
typedef struct nearest {
    const char *word, *best;
    int distance;
} nearest;

nearest nearest_to(const char *word);
void nearest_offer(nearest *n, const char *name);
/* Returns the nearest name; NULL if no name is near enough. The distance may be at most a third of the word's length, and 2
 * for words over 3 letters. */
const char *nearest_found(const nearest *n);
