/* stage.h - a program that runs one stage of a pipeline: its part of the whole network, and the messages between stages.
 *
 * The program is first built for the whole network and then cut, so that nodes are prepared as in a program without stages.
 * The result contains the nodes of one stage, and nodes that send, receive and sum. */
#pragma once

#include "executor/program/program.h"
#include "executor/ranks/collectives.h"
#include "memplan/ranks/pipeline.h"

/* The message of a node: sent to a neighbour, received from a neighbour, or summed over the stages that hold a parameter. */
typedef struct mp_stage_message {
    bool is_sum;          /* true: the message is a sum, once per training step; false: a transfer, once per micro-batch */
    bool is_ahead;        /* true: the activation is copied to the send buffer and sent from there while the stage continues */
    int first, stride, n; /* the stages first, first + stride, ... (n of them); in a transfer, stage `first` sends */
    int tag; /* all stages that take part in the message use this tag to match it, because ranks may issue messages in different
                orders */
    size_t n_storages; /* the storages whose contents the message carries, from the node's record of collectives */
    const int *storages;
} mp_stage_message;

typedef struct mp_program_stage {
    mp_pipeline_shape shape;
    int index;                /* index of this stage in the pipeline */
    int held, send_buffer;    /* storages of the stash of activations and of the send buffer, as in mp_rank; -1: none */
    char whole_hash[33];      /* hash of the graph of the whole network */
    const bool *is_elsewhere; /* per tensor of the model: true if only other stages hold the tensor */
    size_t n_messages;
    mp_stage_message *messages;
} mp_program_stage;

/* Reduces a program to one stage of a pipeline. `pipeline` must be cut from the program's graph. Releases the old graph and
 * sets program->graph to rank->graph. The caller releases the rest of *rank with mp_rank_free. MP_UNSUPPORTED: the stages that
 * hold a parameter are not at equal distances. Other errors: as mp_pipeline_rank_graph. */
mp_status mp_program_cut(mp_program *program, const mp_pipeline *pipeline, int index, mp_rank *rank, mp_error *err);
/* For zero=2 and 3, where each rank stores parts of gradients: makes gradient sums over pipeline stages use these parts.
 * Called after the collectives are in the graph. MP_INVALID: the workspace is too large. O(messages). */
mp_status mp_stage_sum_parts(mp_program *program, mp_error *err);
/* Returns the message that a node sends, receives or sums between stages; NULL: none. */
const mp_stage_message *mp_program_message(const mp_program *program, int node);
