/* collective_json.c - reads and writes the record of a node's collectives. */
#include "formats/json/collective_json.h"

#include <math.h>

#include "estimator/base/memory.h"

enum { RUNS_MAX = 1 << 16 }; /* plans may run every node this often before a sum of bytes overflows */

static mp_status read_leg(const mp_json_record *row, const json_t *object, mp_collective_leg *leg, int64_t *total)
{
    mp_json_record at = *row; /* keeps the position of the node's row, so that error messages name the node */
    const char *kind = NULL, *dim = NULL;
    int64_t product;
    at.object = object;
    if (!json_is_object(object)) return mp_json_record_fail(row, "an element of \"legs\" is no object");
    MP_CHECK(mp_json_get_text(&at, "kind", true, &kind));
    MP_CHECK(mp_json_get_text(&at, "dimension", true, &dim));
    MP_CHECK(mp_json_get_int(&at, "ranks", true, &leg->n_ranks));
    MP_CHECK(mp_json_get_int(&at, "bytes", true, &leg->bytes));
    MP_CHECK(mp_json_get_real(&at, "seconds", false, &leg->seconds));
    const int found = mp_collective_find(kind), along = mp_dim_find(dim);
    if (found < 0) return mp_json_record_fail(row, "\"kind\" is the unknown \"%.60s\"", kind);
    if (along < 0) return mp_json_record_fail(row, "\"dimension\" is the unknown \"%.60s\"", dim);
    leg->kind = (mp_collective)found;
    leg->dim = (mp_dim)along;
    const bool is_possible = leg->n_ranks >= 1 && leg->bytes >= 0 && isfinite(leg->seconds) && leg->seconds >= 0;
    if (!is_possible)
        return mp_json_record_fail(row, "a collective has %lld ranks, %lld bytes and %g seconds", (long long)leg->n_ranks,
                                   (long long)leg->bytes, leg->seconds);
    if (!mp_multiply(2 * (leg->n_ranks < INT64_MAX / 2 ? leg->n_ranks : 0), leg->bytes, &product) ||
        leg->n_ranks >= INT64_MAX / 2 || product > INT64_MAX / RUNS_MAX - *total)
        return mp_json_record_fail(row, "the collectives up to here have too many bytes");
    *total += product;
    return MP_OK;
}

mp_status mp_collective_read(mp_graph *graph, const mp_json_record *row, int64_t *total, mp_node *node)
{
    const json_t *object = NULL, *legs = NULL;
    mp_collective_record record = {.member = -1};
    mp_json_record at = *row;
    MP_CHECK(mp_json_get_object(row, "collective", &object));
    if (!object) return MP_OK;
    at.object = object;
    MP_CHECK(mp_json_get_array(&at, "legs", true, &legs));
    record.n_legs = json_array_size(legs);
    if (record.n_legs < 1 || record.n_legs > MP_LEGS_MAX)
        return mp_json_record_fail(row, "\"legs\" has %zu elements, not 1 to %d", record.n_legs, MP_LEGS_MAX);
    for (size_t k = 0; k < record.n_legs; k++) MP_CHECK(read_leg(&at, json_array_get(legs, k), &record.legs[k], total));
    MP_CHECK(mp_json_get_flag(&at, "once", &record.once));
    MP_CHECK(mp_json_get_flag(&at, "receives", &record.receives));
    node->collective = mp_graph_collective(graph, &record);
    return node->collective ? MP_OK : MP_NO_MEMORY(row->err);
}

json_t *mp_collective_json(const mp_collective_record *record)
{
    json_t *object = json_object(), *legs = json_array();
    for (size_t k = 0; k < record->n_legs; k++) {
        const mp_collective_leg *leg = &record->legs[k];
        mp_json_append(&legs, json_pack("{s:s, s:s, s:I, s:I, s:f}", "kind", mp_collective_name(leg->kind), "dimension",
                                        mp_dim_name(leg->dim), "ranks", (json_int_t)leg->n_ranks, "bytes",
                                        (json_int_t)leg->bytes, "seconds", leg->seconds));
    }
    mp_json_set(&object, "legs", legs);
    if (record->once) mp_json_set(&object, "once", json_true());
    if (record->receives) mp_json_set(&object, "receives", json_true());
    return object;
}
