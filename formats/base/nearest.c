/* nearest.c - computes the edit distance between a misspelled word and a known name. */
#include "formats/base/nearest.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

enum { LENGTH_MAX = 256 };

/* Returns the number of edits between two words: insertions, deletions, replacements, and swaps of neighbouring letters. */
static int edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    int rows[3][LENGTH_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) last[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        int *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[m];
}

mp_nearest mp_nearest_to(const char *word)
{
    return (mp_nearest){word, NULL, INT_MAX};
}

void mp_nearest_offer(mp_nearest *n, const char *name)
{
    size_t a = strlen(n->word), b = strlen(name);
    if (a > LENGTH_MAX || b > LENGTH_MAX) return;
    int d = edit_distance(n->word, a, name, b);
    /* a known name with an appended suffix, such as batchsize for batch, counts as distance 2 */
    if (b > 3 && d > 2 && !strncmp(n->word, name, b)) d = 2;
    if (d < n->distance) {
        n->distance = d;
        n->best = name;
    }
}

const char *mp_nearest_found(const mp_nearest *n)
{
    int length = (int)strlen(n->word), allowed = length / 3;
    if (length > 3 && allowed < 2) allowed = 2;
    return n->distance <= allowed ? n->best : NULL;
}
