/* architecture.h - networks known by name: a table of their shapes, and models built from a shape.
 *
 *     // given: mp_error *err
 *     mp_architecture mine = *mp_architecture_find("Llama 3 8B");
 *     mine.layers = 2;
 *     mp_model *model = NULL;
 *     MP_CHECK(mp_architecture_model(&mine, 4, 8192, &model, err)); // batch 4, 8192 tokens
 *     mp_model_free(model);
 *
 * A model has the same operators and parameters as an export of the original network; parameter values are absent. Names are
 * regular: "embedding.weight", "layers.3.attention.query.weight", "layers.3.mlp.up.weight", "norm.weight", "classifier.weight".
 * With an encoder and a decoder: "encoder.layers.3.mlp.up.weight", "decoder.layers.3.cross.query.weight". Matrices have shape
 * (in, out). The experts of a layer are one tensor of shape (experts, in, out). All layers have the same operators in the same
 * order.
 *
 * In a mixture of experts memplan assumes a balanced load: every expert receives the same number of tokens. Tokens are sorted
 * by expert and multiplied in batches. No shape depends on the router's decisions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"
#include "memplan/model.h"

/* A family of networks with a common structure: normalization, positions, biases, activation function and mask. */
typedef enum mp_architecture_family {
    MP_FAMILY_GPT, /* The model has LayerNormalization before attention and mlp, learned positions, a fused QKV product, biases,
                      tanh GELU and a causal mask. Several heads may share keys and values. */
    MP_FAMILY_LLAMA, /* The model has RMSNormalization before attention and mlp, rotary positions, no biases, SwiGLU and a
                        causal mask. Several heads may share keys and values. A layer has one mlp, or several experts. */
    MP_FAMILY_BERT, /* The model has LayerNormalization after attention and mlp, learned positions and token types, biases, GELU
                       and a pooler. */
    MP_FAMILY_VIT,  /* The model has image patches and a class token, LayerNormalization before attention and mlp, learned
                       positions, biases and GELU. */
    MP_FAMILY_T5    /* The model has an encoder and a causal decoder with the same number of layers. The decoder has
                       cross-attention to the encoder output. RMSNormalization precedes each attention and mlp. Scores are
                       unscaled, with a learned relative position bias per head. There are no biases; the mlp uses ReLU. */
} mp_architecture_family;

/* One row of shapes.def. */
typedef struct mp_architecture {
    const char *name;  /* "llama3-8b" */
    const char *title; /* "Llama 3 8B" */
    mp_architecture_family family;
    int64_t layers, width, feed_forward; /* feed_forward is the inner width of the mlp, or of one expert */
    int64_t heads, key_value_heads;
    int64_t head_width; /* width of one attention head; 0 means `width` divided by the number of heads */
    int64_t vocabulary; /* number of tokens in the vocabulary; for an image network, the number of classes */
    int64_t sequence; /* sequence length of the encoder and of the decoder, in tokens. For image networks: the number of patches
                         (a square number) plus the class token */
    int64_t patch;    /* side of an image patch in pixels; 0 means that the input is tokens, not an image */
    int64_t experts, experts_per_token; /* number of experts per layer, and number of experts that process each token; 0 means
                                           one mlp for all tokens */
    bool norms_heads; /* true: RMSNormalization of each head of queries and keys, before rotary positions (Llama family) */
    bool is_tied;     /* true: the classifier reuses the weight of the embedding (tied weights) */
    double dropout;   /* dropout rate of embeddings and of the outputs of attention and mlp, before these are added to the
                         residual stream */
    double attention_dropout; /* dropout rate of attention probabilities */
} mp_architecture;

/* Access to the table shapes.def: the number of architectures, and architecture k in the order of the file. */
size_t mp_architecture_count(void);
const mp_architecture *mp_architecture_row(size_t k); /* k < mp_architecture_count() */
/* Finds an architecture of shapes.def by its name or title ("GPT-3 175B"). Case, spaces and dashes do not matter. Returns
 * NULL if no architecture has this name. */
const mp_architecture *mp_architecture_find(const char *name);

/* Sets a size of an architecture by its field name ("layers", "width", "feed-forward"). If every head has its own keys and
 * values, setting the number of heads also sets the number of key/value heads. MP_INVALID: the architecture has no size of
 * this name. */
mp_status mp_architecture_set(mp_architecture *architecture, const char *size, int64_t value, mp_error *err);

/* Builds the model of an architecture for a batch size (0: 1) and a sequence length (0: the architecture's). For a longer
 * sequence the model has more learned positions. On MP_OK release *out with mp_model_free. MP_INVALID: sizes are
 * inconsistent, or exceed 10,000 layers or 131,072 tokens (T5: 65,536). The message names these sizes. MP_NOMEM. O(layers). */
mp_status mp_architecture_model(const mp_architecture *architecture, int64_t batch, int64_t sequence, mp_model **out,
                                mp_error *err);

/* Writes the module path of a block in Hugging Face's transformers 5: "layers.3" of a GPT becomes "transformer.h.3". Other
 * names are copied. The output is truncated to `size` bytes. Returns text. O(length). */
const char *mp_architecture_block_path(const mp_architecture *architecture, const char *block, char *text, size_t size);

/* Counts the trained parameters of an architecture (single numbers, not tensors). MP_INVALID, MP_NOMEM. O(layers). */
mp_status mp_architecture_parameters(const mp_architecture *architecture, int64_t *n, mp_error *err);
