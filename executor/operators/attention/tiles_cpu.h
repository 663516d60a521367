/* tiles_cpu.h - matrices in tiles, and what forward and backward of attention have in common.
 *
 * A tile is a part of a matrix as oneDNN's sgemm takes it: floats, with one of the two strides 1. Where the matrix lies so in
 * memory the tile is there, else it is copied into a room and back.
 */
#pragma once

#include <stdatomic.h>

#include "executor/operators/attention/attention_spec.h"

enum { MP_TILE_ROWS = 64, MP_TILE_COLUMNS = 128 }; /* of the matrix of scores */

/* As a part of this matrix, [row, row + rows) x [column, column + columns). */
typedef struct mp_tile_part {
    int64_t matrix, row, column, rows, columns;
} mp_tile_part;

/* Element (i, j) is at[i * ld + j], turned: at[j * ld + i]. */
typedef struct mp_tile {
    float *at;
    int64_t ld;
    bool turned;
} mp_tile;

/* Is the tile there in memory, so that it needs no room? */
bool mp_tile_is_there(const mp_matrices *m, const mp_tile_part *part);
/* The tile with its values; `room`: rows * columns floats. */
mp_tile mp_tile_read(const mp_matrices *m, const void *data, const mp_tile_part *part, float *room);
/* The tile filled with zeros, to add to; mp_tile_write then puts it where it belongs. */
mp_tile mp_tile_zeros(const mp_matrices *m, void *data, const mp_tile_part *part, float *room);
void mp_tile_write(const mp_matrices *m, void *data, const mp_tile_part *part, const mp_tile *tile);
mp_tile mp_tile_transposed(mp_tile t);
/* The part of a tile from this row on. */
mp_tile mp_tile_from(mp_tile t, int64_t row);
/* c (m x n) = alpha a (m x k) b (k x n) + beta c, by oneDNN's sgemm, which packs its operands into a buffer of its own while it
 * runs. Returns its dnnl_status_t. */
int mp_tile_product(int64_t m, int64_t n, int64_t k, float alpha, mp_tile a, mp_tile b, float beta, mp_tile c);

typedef struct mp_attention_state {
    mp_attention_spec spec;
    int64_t n_workers, room_floats; /* rooms in the workspace, one per worker */
} mp_attention_state;

typedef struct mp_attention_job {
    const mp_attention_state *s;
    const mp_operands *x;
    atomic_int failed; /* the first status of oneDNN that is none of success */
} mp_attention_job;

/* scores (ld MP_TILE_COLUMNS) = scale Q K^T of this part, with masks applied. */
void mp_attention_scores(mp_attention_job *j, const mp_tile_part *part, mp_tile q, mp_tile k, float *scores);
/* d = 0 where scores were replaced: no gradient goes through them. */
void mp_attention_forget_replaced(const mp_attention_job *j, const mp_tile_part *part, float *d);
/* The uniform numbers that decide which elements of row i of the part are dropped. */
void mp_attention_draw(const mp_attention_job *j, const mp_tile_part *part, int64_t i, float *u);
/* Is nothing of this part visible? */
static inline bool mp_attention_is_hidden(const mp_attention_state *s, const mp_tile_part *part)
{
    return s->spec.causal && part->column > part->row + part->rows - 1;
}
static inline int64_t mp_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t mp_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What both directions are prepared from; the caller sets room_floats and run. */
mp_status mp_attention_prepare(const mp_operands *x, mp_call *call, mp_attention_state **out, mp_error *err);
/* Calls body(job, worker) for each worker, and turns its failure into an error. */
mp_status mp_attention_run(const mp_call *call, const mp_operands *x, void (*body)(void *job, int64_t worker), mp_error *err);
/* Makes room for the workers. MP_INVALID: too much. */
mp_status mp_attention_rooms(mp_attention_state *s, int64_t n_jobs, int64_t room_floats, const mp_operands *x, mp_call *call,
                             mp_error *err);
