/* nearest.h - finds the known name that the user probably meant with a misspelled word. */
#pragma once

/* A search for the known name with the smallest edit distance to a word. Insertions, deletions, replacements and swaps of
 * neighbouring letters count 1 each. Names are passed one by one. Of names with the same distance, the first is chosen.
 * O(length^2) per name. Names over 256 bytes are skipped. */
typedef struct mp_nearest {
    const char *word, *best;
    int distance;
} mp_nearest;

mp_nearest mp_nearest_to(const char *word);
void mp_nearest_offer(mp_nearest *n, const char *name);
/* Returns the name with the smallest distance, or NULL if this distance is too large. The distance may be at most a third of
 * the word's length; for words over 3 letters it may be 2 in any case. */
const char *mp_nearest_found(const mp_nearest *n);
