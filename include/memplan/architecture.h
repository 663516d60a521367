/* architecture.h - networks known by name: a table of their shapes, and models made of a shape as if read from a file.
 *
 *     mp_architecture mine = *mp_architecture_find("Llama 3 8B");
 *     mine.layers = 2;
 *     MP_CHECK(mp_architecture_model(&mine, 4, 8192, &model, err)); // batch 4, 8192 tokens
 *     ...
 *     mp_model_free(model);
 *
 * A model has the operators that an export of the original has, and its parameters, without values. Names are regular:
 * "embedding.weight", "layers.3.attention.query.weight", "layers.3.mlp.up.weight", "norm.weight", "classifier.weight"; with an
 * encoder and a decoder "encoder.layers.3.mlp.up.weight", "decoder.layers.3.cross.query.weight". Matrices are (in, out), the
 * experts of a layer one stack (experts, in, out). All layers have the same operators in the same order.
 *
 * In a mixture of experts the load is taken to be balanced: every expert gets the same number of tokens, which are sorted by
 * expert and multiplied in batches. No shape can depend on what a router decides.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/model.h"

/* What networks of a family have in common. */
typedef enum mp_architecture_family {
    MP_FAMILY_GPT, /* LayerNormalization before attention and mlp; learned positions; one product for queries, keys and values;
                      biases; GELU by tanh; causal; heads may share keys and values */
    MP_FAMILY_LLAMA, /* RMSNormalization before both; rotary positions; heads may share keys and values; no biases; SwiGLU;
                        causal; one mlp, or experts */
    MP_FAMILY_BERT,  /* LayerNormalization after both; learned positions and token types; biases; GELU; a pooler */
    MP_FAMILY_VIT, /* LayerNormalization before both; patches of an image and a class token, learned positions; biases; GELU */
    MP_FAMILY_T5   /* an encoder, and a causal decoder of as many layers with a second attention over what the encoder puts out;
                      RMSNormalization before each part; a learned number per head and distance on unscaled scores; no biases;
                      ReLU */
} mp_architecture_family;

/* One row of shapes.def. */
typedef struct mp_architecture {
    const char *name;  /* "llama3-8b" */
    const char *title; /* "Llama 3 8B" */
    mp_architecture_family family;
    int64_t layers, width, feed_forward; /* feed_forward: the inner width of the mlp, or of one expert */
    int64_t heads, key_value_heads;
    int64_t head_width; /* 0: the width is shared out to the heads */
    int64_t vocabulary; /* of an image's network: classes */
    int64_t sequence; /* tokens, of an encoder and of its decoder; of an image's network its patches, whose number is a square,
                         and the class token */
    int64_t patch;    /* the side of a patch in pixels; 0: it reads tokens */
    int64_t experts, experts_per_token; /* 0: one mlp for all tokens */
    bool is_tied;                       /* the classifier multiplies by the embedding */
    double dropout;                     /* of embeddings and of what is added to the residual */
    double attention_dropout;           /* of probabilities */
} mp_architecture;

/* All rows, in the order of shapes.def. */
size_t mp_architecture_count(void);
const mp_architecture *mp_architecture_row(size_t k); /* k < mp_architecture_count() */
/* Finds a row by its name or title ("GPT-3 175B"); case, spaces and dashes do not matter. NULL if there is none. */
const mp_architecture *mp_architecture_find(const char *name);

/* Sets a size by the name of its field ("layers", "width", "feed-forward"). Heads that had keys and values of their own keep
 * them. MP_INVALID: no such size. */
mp_status mp_architecture_set(mp_architecture *architecture, const char *size, int64_t value, mp_error *err);

/* Builds the model for a batch (0: 1) and a sequence (0: the architecture's). A sequence beyond the architecture's has as many
 * learned positions more. On MP_OK *out is released with mp_model_free. MP_INVALID: sizes that do not fit together, over 10,000
 * layers or 131,072 tokens (of T5 65,536), named; MP_NOMEM. O(layers). */
mp_status mp_architecture_model(const mp_architecture *architecture, int64_t batch, int64_t sequence, mp_model **out,
                                mp_error *err);

/* Writes the path of a block in transformers 5, the library of Hugging Face: for "layers.3" of GPT "transformer.h.3". Other
 * names are copied. Text beyond `size` bytes is cut. Returns text. O(length). */
const char *mp_architecture_block_path(const mp_architecture *architecture, const char *block, char *text, size_t size);

/* Counts the numbers that are trained. MP_INVALID, MP_NOMEM. O(layers). */
mp_status mp_architecture_parameters(const mp_architecture *architecture, int64_t *n, mp_error *err);
