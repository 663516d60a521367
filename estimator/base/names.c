/* names.c - a map from names to numbers, as a hash table (uthash). */
#include "estimator/base/names.h"

#include <string.h>

/* By default uthash aborts if memory is short. With this setting, uthash undoes the addition, and the table pointer of the
 * element stays NULL. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) mp_alloc(1, (bytes))
#define uthash_free(block, bytes) mp_free(block)
#include <uthash.h>

struct entry {
    const char *name;
    int index;
    UT_hash_handle hh;
};

struct mp_names {
    struct entry *entries;
    mp_pool *pool; /* memory pool that owns the entries of the map */
};

mp_names *mp_names_new(void)
{
    mp_names *names = mp_alloc(1, sizeof *names);
    if (names && !(names->pool = mp_pool_new())) {
        mp_free(names);
        names = NULL;
    }
    return names;
}

void mp_names_free(mp_names *names)
{
    if (!names) return;
    HASH_CLEAR(hh, names->entries);
    mp_pool_free(names->pool);
    mp_free(names);
}

static struct entry *entry_of(const mp_names *names, const char *name)
{
    struct entry *found = NULL;
    HASH_FIND(hh, names->entries, name, strlen(name), found);
    return found;
}

int mp_names_find(const mp_names *names, const char *name)
{
    const struct entry *e = entry_of(names, name);
    return e ? e->index : -1;
}

bool mp_names_set(mp_names *names, const char *name, int index)
{
    struct entry *e = entry_of(names, name);
    if (e) {
        e->index = index;
        return true;
    }
    if (!(e = mp_pool_alloc(names->pool, 1, sizeof *e))) return false;
    e->name = name;
    e->index = index;
    HASH_ADD_KEYPTR(hh, names->entries, e->name, strlen(e->name), e);
    return e->hh.tbl != NULL;
}

int mp_names_position(const char *const *names, int n, const char *name)
{
    for (int k = 0; k < n; k++)
        if (!strcmp(names[k], name)) return k;
    return -1;
}

/* Returns the next letter or digit in lower case, skipping spaces, dashes and underscores; 0 at the end. */
static char next_letter(const char **at)
{
    while (**at == ' ' || **at == '-' || **at == '_') (*at)++;
    const char c = **at;
    if (c) (*at)++;
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool mp_names_are_alike(const char *a, const char *b)
{
    for (;;) {
        const char x = next_letter(&a), y = next_letter(&b);
        if (x != y) return false;
        if (!x) return true;
    }
}
