/* process_memory.c - the memory of a PyTorch process from the table process.def. */
#include "memplan/workloads/process_memory.h"

#include <string.h>

#include "estimator/base/names.h"
#include "estimator/training/target.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static const struct {
    const char *name;
    int n_processors;
    int64_t workspace_bytes, visible_bytes;
} cards[] = {
#define CONTEXT(...)
#define FAMILY(...)
#define CARD(name, n, workspace, visible) {name, n, (int64_t)(workspace)*KIB, (int64_t)(visible)*MIB},
#include "estimator/training/process.def"
#undef CONTEXT
#undef FAMILY
#undef CARD
};

static const struct {
    const char *name;
    int64_t n_jobs, median_error, margin;
} families[] = {
#define CONTEXT(...)
#define CARD(...)
#define FAMILY(name, n, median, margin) {name, n, median, margin},
#include "estimator/training/process.def"
#undef CONTEXT
#undef CARD
#undef FAMILY
};

static int64_t context_bytes(int n_processors)
{
    double mib = 0;
#define CARD(...)
#define FAMILY(...)
#define CONTEXT(empty, each, kernels) mib = (empty) + (each)*n_processors + (kernels);
#include "estimator/training/process.def"
#undef CARD
#undef FAMILY
#undef CONTEXT
    return (int64_t)mib * MIB;
}

static int position_of_card(const char *card)
{
    int found = -1;
    for (int k = 0; k < (int)(sizeof cards / sizeof *cards); k++) {
        if (mp_names_are_alike(cards[k].name, card)) return k;
        const bool is_longer = found < 0 || strlen(cards[k].name) > strlen(cards[found].name);
        if (mp_card_has_name(card, cards[k].name) && is_longer) found = k;
    }
    return found;
}

bool mp_process_memory_of(const char *card, const char *family, int64_t reserved_bytes, mp_process_memory *out)
{
    const int at = position_of_card(card);
    size_t f = 0;
    while (f < sizeof families / sizeof *families && strcmp(families[f].name, family) != 0) f++;
    if (at < 0 || f == sizeof families / sizeof *families || reserved_bytes < 0 || reserved_bytes > INT64_MAX / 2) return false;
    const int64_t context = context_bytes(cards[at].n_processors);
    *out = (mp_process_memory){
        .context_bytes = context,
        .workspace_bytes = cards[at].workspace_bytes,
        .card_bytes = cards[at].visible_bytes,
        .process_bytes = reserved_bytes + context,
        .likely_bytes = reserved_bytes + reserved_bytes / 1000 * families[f].margin + context,
        .n_jobs = families[f].n_jobs,
        .median_error = families[f].median_error,
    };
    return true;
}
