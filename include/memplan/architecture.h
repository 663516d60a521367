/* architecture.h - networks known by name: a table of their shapes, and models built from a shape.
 *
 *     mp_architecture mine = *mp_architecture_find("Llama 3 8B");
 *     mine.layers = 2;
 *     MP_CHECK(mp_architecture_model(&mine, 4, 8192, &model, err)); // batch 4, 8192 tokens
 *     ...
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

/* The common structure of a family of networks. */
typedef enum mp_architecture_family {
    MP_FAMILY_GPT,   /* LayerNormalization before attention and mlp; learned positions; fused QKV product; biases; GELU by tanh;
                        causal; heads may share keys and values */
    MP_FAMILY_LLAMA, /* RMSNormalization before attention and mlp; rotary positions; heads may share keys and values; no biases;
                        SwiGLU; causal; one mlp, or experts */
    MP_FAMILY_BERT,  /* LayerNormalization after attention and mlp; learned positions and token types; biases; GELU; a pooler */
    MP_FAMILY_VIT,   /* LayerNormalization before attention and mlp; image patches and a class token; learned positions; biases;
                        GELU */
    MP_FAMILY_T5 /* encoder and causal decoder with the same number of layers; the decoder has cross-attention to the encoder
                    output; RMSNormalization before each part; learned relative position bias per head on unscaled scores; no
                    biases; ReLU */
} mp_architecture_family;

/* One row of shapes.def. */
typedef struct mp_architecture {
    const char *name;  /* "llama3-8b" */
    const char *title; /* "Llama 3 8B" */
    mp_architecture_family family;
    int64_t layers, width, feed_forward; /* feed_forward: the inner width of the mlp, or of one expert */
    int64_t heads, key_value_heads;
    int64_t head_width; /* width of one attention head; 0: `width` divided by the number of heads */
    int64_t vocabulary; /* number of tokens in the vocabulary; for image networks, number of classes */
    int64_t sequence; /* tokens of the encoder and of the decoder; for image networks: patches (a square number) plus the class
                         token */
    int64_t patch;    /* side of an image patch in pixels; 0: the input is tokens, not an image */
    int64_t experts,
        experts_per_token;    /* number of experts per layer, and of experts that process a token; 0: one mlp for all tokens */
    bool is_tied;             /* the classifier uses the embedding's weight */
    double dropout;           /* dropout rate of embeddings and of the branches added to the residual stream */
    double attention_dropout; /* dropout rate of attention probabilities */
} mp_architecture;

/* Return the number of architectures in shapes.def, and architecture k in the file's order. */
size_t mp_architecture_count(void);
const mp_architecture *mp_architecture_row(size_t k); /* k < mp_architecture_count() */
/* Finds a row by its name or title ("GPT-3 175B"); case, spaces and dashes do not matter. NULL if there is none. */
const mp_architecture *mp_architecture_find(const char *name);

/* Sets a size by its field name ("layers", "width", "feed-forward"). If every head has its own keys and values, setting the
 * number of heads also sets the number of key/value heads. MP_INVALID: the architecture has no size of this name. */
mp_status mp_architecture_set(mp_architecture *architecture, const char *size, int64_t value, mp_error *err);

/* Builds the model for a batch (0: 1) and a sequence (0: the architecture's). A longer sequence than the architecture's adds
 * learned positions. On MP_OK release *out with mp_model_free. MP_INVALID names the sizes: they are inconsistent, or exceed
 * 10,000 layers or 131,072 tokens (T5: 65,536). MP_NOMEM. O(layers). */
mp_status mp_architecture_model(const mp_architecture *architecture, int64_t batch, int64_t sequence, mp_model **out,
                                mp_error *err);

/* Writes the module path of a block in Hugging Face's transformers 5: "layers.3" of a GPT becomes "transformer.h.3". Other
 * names are copied. Output beyond `size` bytes is cut. Returns text. O(length). */
const char *mp_architecture_block_path(const mp_architecture *architecture, const char *block, char *text, size_t size);

/* Counts the trained parameters (single numbers). MP_INVALID, MP_NOMEM. O(layers). */
mp_status mp_architecture_parameters(const mp_architecture *architecture, int64_t *n, mp_error *err);
