/* process_memory.c - the memory of a PyTorch process from the table process.def. */
#include "memplan/workloads/process_memory.h"

#include <string.h>

#include "estimator/base/names.h"
#include "estimator/training/target.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static const struct {
    const char *name;
    int n_processors, capability;
    int64_t workspace_bytes, visible_bytes;
} cards[] = {
#define CARD(name, n, capability, workspace, visible) {name, n, capability, (int64_t)(workspace)*KIB, (int64_t)(visible)*MIB},
#include "estimator/training/process.def"
};

static const struct {
    const char *name;
    int64_t n_jobs, median_error, margin;
} families[] = {
#define FAMILY(name, n, median, margin) {name, n, median, margin},
#include "estimator/training/process.def"
};

static int64_t context_bytes(int n_processors)
{
    double mib = 0;
#define CONTEXT(empty, each, kernels) mib = (empty) + (each)*n_processors + (kernels);
#include "estimator/training/process.def"
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

static int64_t visible_bytes(int card)
{
    static const int64_t of_process = INT64_C(3) << 28; /* bytes of a device's reserve that the process itself requires */
    const mp_device *device = cards[card].visible_bytes ? NULL : mp_device_find(cards[card].name);
    if (!device) return cards[card].visible_bytes;
    return device->memory_bytes - (device->reserve_bytes > of_process ? device->reserve_bytes - of_process : 0);
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
        .card_bytes = visible_bytes(at),
        .process_bytes = reserved_bytes + context,
        .likely_bytes = reserved_bytes + reserved_bytes / 1000 * families[f].margin + context,
        .n_jobs = families[f].n_jobs,
        .median_error = families[f].median_error,
        .margin = families[f].margin,
        .n_processors = cards[at].n_processors,
        .capability = cards[at].capability,
    };
    return true;
}

int64_t mp_process_room(const char *card, const char *family, int64_t card_bytes, int64_t other_bytes)
{
    enum { ALL = 1000 };
    mp_process_memory m;
    if (!mp_process_memory_of(card, family, 0, &m)) return -1;
    const int64_t room = (card_bytes ? card_bytes : m.card_bytes) - m.context_bytes - other_bytes;
    return room > 0 ? room / (ALL + m.margin) * ALL : 0;
}
