/* graph_hash.c - the hash that connects a plan with its graph.
 *
 * XXH3 (128 bits) processes all plan-relevant data in a fixed order. Integers are 8 bytes in little-endian order. A double
 * is hashed as the integer with the same bits. A text is hashed as its length and bytes, a list as its length and elements.
 * The hash is therefore the same on every machine, and different graphs give different byte sequences. Data about copies,
 * which most graphs lack, are hashed last, and only if present. */
#include <string.h>
#include <xxhash.h>

#include "memplan/graph.h"

enum { SERIALISATION_VERSION = 1 };

/* A buffer for input of XXH3. Its bytes are passed to XXH3 only when it is full, because XXH3 is faster on long inputs. */
struct stream {
    XXH3_state_t *xxh;
    size_t used;
    uint8_t bytes[4096];
};

static void flush(struct stream *s)
{
    XXH3_128bits_update(s->xxh, s->bytes, s->used);
    s->used = 0;
}

static void put(struct stream *s, uint64_t value)
{
    if (s->used + 8 > sizeof s->bytes) flush(s);
    for (int i = 0; i < 8; i++) s->bytes[s->used++] = (uint8_t)(value >> 8 * i);
}

static void put_double(struct stream *s, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(s, bits);
}

static void put_text(struct stream *s, const char *text)
{
    size_t length = strlen(text);
    put(s, length);
    flush(s);
    XXH3_128bits_update(s->xxh, text, length);
}

static void put_list(struct stream *s, const int *list, size_t n)
{
    put(s, n);
    for (size_t i = 0; i < n; i++) put(s, (uint64_t)list[i]);
}

static void put_storage(struct stream *s, const mp_storage *storage)
{
    put(s, (uint64_t)storage->id);
    put_text(s, storage->name);
    put(s, (uint64_t)storage->bytes);
    put_text(s, mp_kind_name(storage->kind));
    put(s, storage->n_tensors);
    for (size_t i = 0; i < storage->n_tensors; i++) put_text(s, storage->tensors[i]);
    put(s, (storage->carried ? 1u : 0u) | (storage->persistent ? 2u : 0u) | (storage->any_sum_order ? 4u : 0u));
}

static void put_node(struct stream *s, const mp_node *node)
{
    put(s, (uint64_t)node->id);
    put_text(s, node->name);
    put_text(s, node->op);
    put_text(s, mp_phase_name(node->phase));
    put_double(s, node->flops);
    put(s, (uint64_t)(int64_t)node->forward_of);
    put(s, node->flags | (mp_node_has_algorithms(node) ? UINT64_C(1) << 32 : 0));
    put(s, node->n_alternatives);
    for (size_t k = 0; k < node->n_alternatives; k++) {
        const mp_alternative *alternative = &node->alternatives[k];
        put_list(s, alternative->reads, alternative->n_reads);
        put_list(s, alternative->writes, alternative->n_writes);
        put_list(s, alternative->adds, alternative->n_adds);
        put(s, alternative->n_in_place);
        for (size_t i = 0; i < alternative->n_in_place; i++) {
            put(s, (uint64_t)alternative->in_place[i].from);
            put(s, (uint64_t)alternative->in_place[i].to);
        }
        put(s, (uint64_t)alternative->workspace_bytes);
        put(s, (uint64_t)alternative->ticks);
        if (alternative->algorithm) put_text(s, alternative->algorithm);
    }
}

/* Hashes channels and tiers, the tier of each storage, and the channel of each alternative. */
static void put_places(struct stream *s, const mp_graph *graph)
{
    put(s, graph->n_channels);
    for (size_t c = 0; c < graph->n_channels; c++) put_text(s, graph->channels[c]);
    put(s, graph->n_tiers);
    for (size_t m = 0; m < graph->n_tiers; m++) put_text(s, graph->tiers[m]);
    for (size_t i = 0; i < graph->n_storages; i++) put(s, (uint64_t)graph->storages[i].tier);
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t k = 0; k < graph->nodes[i].n_alternatives; k++) {
            const mp_alternative *alternative = &graph->nodes[i].alternatives[k];
            put(s, (uint64_t)alternative->channel << 1 | alternative->returns);
        }
}

mp_status mp_graph_hash(const mp_graph *graph, char hash[33], mp_error *err)
{
    struct stream s = {.xxh = XXH3_createState()};
    if (!s.xxh) return MP_FAIL(err, MP_NOMEM, "no memory to hash the graph '%s'", graph->name);
    XXH3_128bits_reset(s.xxh);
    put(&s, SERIALISATION_VERSION);
    put_text(&s, mp_fuse_name(graph->fuse));
    put(&s, (uint64_t)graph->alignment);
    put_double(&s, graph->tick_seconds);
    put(&s, graph->n_storages);
    for (size_t i = 0; i < graph->n_storages; i++) put_storage(&s, &graph->storages[i]);
    put(&s, graph->n_nodes);
    for (size_t i = 0; i < graph->n_nodes; i++) put_node(&s, &graph->nodes[i]);
    if (graph->has_copies) put_places(&s, graph);
    flush(&s);

    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(s.xxh));
    XXH3_freeState(s.xxh);
    for (int i = 0; i < 16; i++) {
        hash[2 * i] = "0123456789abcdef"[canonical.digest[i] >> 4];
        hash[2 * i + 1] = "0123456789abcdef"[canonical.digest[i] & 15];
    }
    hash[32] = '\0';
    return MP_OK;
}
