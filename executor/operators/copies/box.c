/* box.c - adds dimensions to a box, sorts and merges them. */
#include "executor/operators/copies/box.h"

#include <stdlib.h>

void mp_box_put(mp_box *box, int64_t dim, int64_t from, int64_t to)
{
    if (dim == 1) return;
    box->dims[box->rank] = dim;
    box->from[box->rank] = from;
    box->to[box->rank++] = to;
}

int64_t mp_box_elements(const mp_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->rank; d++) n *= box->dims[d];
    return n;
}

mp_box mp_box_of(const mp_array *from, const mp_array *to)
{
    mp_box box = {0};
    for (int d = 0; d < to->rank; d++) mp_box_put(&box, to->dims[d], from ? from->strides[d] : 0, to->strides[d]);
    return box;
}

static void move_dim(mp_box *box, int from, int to)
{
    box->dims[to] = box->dims[from];
    box->from[to] = box->from[from];
    box->to[to] = box->to[from];
}

/* Moves dimension d of a box to position `place` in the order of dimensions. */
static void insert_dim(mp_box *box, int d, int place)
{
    if (d < 0 || d >= box->rank) return;
    int64_t dim = box->dims[d], from = box->from[d], to = box->to[d];
    for (; d > place; d--) move_dim(box, d - 1, d);
    for (; d < place; d++) move_dim(box, d + 1, d);
    box->dims[d] = dim;
    box->from[d] = from;
    box->to[d] = to;
}

void mp_box_settle(mp_box *box)
{
    for (int i = 1; i < box->rank; i++) {
        int place = i;
        while (place > 0 && llabs(box->to[place - 1]) < llabs(box->to[i])) place--;
        insert_dim(box, i, place);
    }
    int kept = 0;
    for (int d = 1; d < box->rank; d++) {
        if (box->to[kept] == box->to[d] * box->dims[d] && box->from[kept] == box->from[d] * box->dims[d]) {
            int64_t dim = box->dims[kept] * box->dims[d];
            move_dim(box, d, kept);
            box->dims[kept] = dim;
        } else {
            move_dim(box, d, ++kept);
        }
    }
    if (box->rank) box->rank = kept + 1;
    int last = box->rank - 1;
    for (int d = 0; last >= 0 && box->from[last] != 1 && d < last - 1; d++)
        if (box->from[d] == 1) {
            insert_dim(box, d, last - 1);
            break;
        }
    while (box->rank < 2) {
        box->dims[box->rank] = 1;
        box->from[box->rank] = box->to[box->rank] = 0;
        insert_dim(box, box->rank, 0);
        box->rank++;
    }
}
