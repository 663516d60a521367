/* tiles_cpu.h - tiles of matrices, and functions shared by forward and backward of attention.
 *
 * A tile is a part of a matrix in the form that oneDNN's sgemm requires: floats, with one stride equal to 1. If the matrix in
 * memory has this form, the tile is a view of it. Otherwise the tile is a copy in a room (a buffer
 * in the workspace), which is written back. */
#pragma once

#include <stdatomic.h>

#include "executor/operators/attention/attention_spec.h"

enum { MP_TILE_ROWS = 64, MP_TILE_COLUMNS = 128 }; /* maximum number of rows and of columns in a tile of scores */

/* The tile [row, row + rows) x [column, column + columns) of a matrix. */
typedef struct mp_tile_part {
    int64_t matrix, row, column, rows, columns;
} mp_tile_part;

/* A tile in memory. Element (i, j) is at[i * ld + j]; if the tile is `turned`, at[j * ld + i]. */
typedef struct mp_tile {
    float *at;
    int64_t ld;
    bool turned;
} mp_tile;

/* True if the tile can be a view of the matrix in memory, so that no buffer is needed. */
bool mp_tile_is_there(const mp_matrices *m, const mp_tile_part *part);
/* Returns a tile with values read from the matrix. `room` is memory for a copy, rows * columns floats. */
mp_tile mp_tile_read(const mp_matrices *m, const void *data, const mp_tile_part *part, float *room);
/* Returns the tile filled with zeros for accumulation; mp_tile_write then stores it in the matrix. */
mp_tile mp_tile_zeros(const mp_matrices *m, void *data, const mp_tile_part *part, float *room);
void mp_tile_write(const mp_matrices *m, void *data, const mp_tile_part *part, const mp_tile *tile);
mp_tile mp_tile_transposed(mp_tile t);
/* Returns the lower part of a tile, which begins at row `row` of the tile. */
mp_tile mp_tile_from(mp_tile t, int64_t row);
/* Computes c (m x n) = alpha a (m x k) b (k x n) + beta c with oneDNN's sgemm, which packs its operands into a temporary
 * buffer of its own. Returns sgemm's dnnl_status_t. */
int mp_tile_product(int64_t m, int64_t n, int64_t k, float alpha, mp_tile a, mp_tile b, float beta, mp_tile c);

typedef struct mp_attention_state {
    mp_attention_spec spec;
    mp_dealt dealt;                 /* distribution of the scores over the ranks that split the heads or samples */
    int64_t n_workers, room_floats; /* each worker (thread) has its own buffer of room_floats floats in the workspace */
} mp_attention_state;

typedef struct mp_attention_job {
    const mp_attention_state *s;
    const mp_operands *x;
    atomic_int failed; /* the first dnnl_status_t of a product that failed; 0: none */
} mp_attention_job;

/* Computes the scores scale Q K^T of a tile, with masks applied; the row stride of `scores` is MP_TILE_COLUMNS. */
void mp_attention_scores(mp_attention_job *j, const mp_tile_part *part, mp_tile q, mp_tile k, float *scores);
/* Sets the gradients `d` of a tile's scores to 0 where a mask has replaced the score. */
void mp_attention_forget_replaced(const mp_attention_job *j, const mp_tile_part *part, float *d);
/* Draws the uniform random numbers that decide which elements in row i of a tile dropout drops. */
void mp_attention_draw(const mp_attention_job *j, const mp_tile_part *part, int64_t i, float *u);
/* True if the causal mask hides all scores of the tile. */
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

/* Prepares the fields of a call that forward and backward share; the caller sets room_floats and call->run. */
mp_status mp_attention_prepare(const mp_operands *x, mp_call *call, mp_attention_state **out, mp_error *err);
/* Runs an attention: calls body(job, worker) for each worker, in parallel. Returns the first failure. */
mp_status mp_attention_run(const mp_call *call, const mp_operands *x, void (*body)(void *job, int64_t worker), mp_error *err);
/* Reserves workspace for the buffers of all workers (threads). MP_INVALID: the size overflows. */
mp_status mp_attention_rooms(mp_attention_state *s, int64_t n_jobs, int64_t room_floats, const mp_operands *x, mp_call *call,
                             mp_error *err);
