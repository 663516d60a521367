/* nearest.h - finds the known name that a misspelled word probably means. */
#pragma once

/* Finds the name with the smallest edit distance (insert, delete, replace, swap neighbours) among names passed one by one; of
 * equal ones, the first. O(length^2) per name. Names over 256 bytes are skipped. */
typedef struct nearest {
    const char *word, *best;
    int distance;
} nearest;

nearest nearest_to(const char *word);
void nearest_offer(nearest *n, const char *name);
/* Returns the best name; NULL if none is close. The distance may be a third of the word's length, and 2 for words over 3
 * letters. */
const char *nearest_found(const nearest *n);
