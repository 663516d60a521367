/* stage.h - a program that runs one stage of a pipeline: what it has of the whole network, and what goes between stages.
 *
 * A program is built of the whole network, so that its nodes are prepared as ever, and then cut: what remains are the nodes of
 * one stage, with those that send, receive and sum among them. */
#pragma once

#include "executor/ranks/collectives.h"
#include "executor/run/program.h"
#include "memplan/ranks/pipeline.h"

/* What a node sends to a neighbour or receives from it, or sums over the stages that hold a parameter. */
typedef struct mp_stage_message {
    bool is_sum;          /* once in a step; else it is of each micro-batch */
    bool is_ahead;        /* it is sent from the outbox, while the stage goes on */
    int first, stride, n; /* the stages: first, first + stride, ...; of two neighbours the first one sends */
    int tag;              /* the same on all of them, unlike the order in which a rank issues what it sends */
    size_t n_storages;    /* what is sent, in the same order on both sides */
    const int *storages;
} mp_stage_message;

typedef struct mp_program_stage {
    mp_pipeline_shape shape;
    int index;                /* of this stage */
    int held, outbox;         /* storages, as in mp_rank; -1: none */
    char whole_hash[33];      /* of the graph that was cut */
    const bool *is_elsewhere; /* per tensor: it is in memory on other stages alone */
    size_t n_messages;
    mp_stage_message *messages;
} mp_program_stage;

/* Leaves of a program what one stage of the pipeline has, which is cut from the program's graph; that is released, and
 * program->graph is rank->graph then. The rest of *rank is released with mp_rank_free. MP_UNSUPPORTED: ranks hold a parameter
 * that are not evenly apart. As mp_pipeline_rank_graph. */
mp_status mp_program_cut(mp_program *program, const mp_pipeline *pipeline, int index, mp_rank *rank, mp_error *err);
/* Where ranks of a stage keep parts of gradients (zero=2 and 3), sums over stages are of these parts, as the graph has them
 * once it has been exchanged. MP_INVALID: too large. O(messages). */
mp_status mp_stage_sum_parts(mp_program *program, mp_error *err);
/* Returns what a node sends, receives or sums between stages; NULL: nothing. */
const mp_stage_message *mp_program_message(const mp_program *program, int node);
/* Returns the bytes that a rank of the pipeline sends to other stages in a step. O(messages). */
int64_t mp_stage_sent_bytes(const mp_program *program);
