/* architecture.c - the table of shapes (shapes.def), and the operators before and after the layers of a network. */
#include "memplan/architecture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estimator/architectures/layers.h"
#include "estimator/base/names.h"
#include "estimator/simplify/infer.h"

#define TIED .is_tied = true
#define DROPOUT(ratio) .dropout = (ratio), .attention_dropout = (ratio)
#define RESIDUAL_DROPOUT(ratio) .dropout = (ratio)
#define HEADS_OF(wide) .head_width = (wide)
#define NORMS_HEADS .norms_heads = true
#define PATCHES(side) .patch = (side)
#define EXPERTS(of_a_layer, per_token) .experts = (of_a_layer), .experts_per_token = (per_token)
#define SHAPE(row, what, kind, n_layers, wide, inner, n_heads, n_pairs, words, length, ...) \
    {.name = row,                                                                           \
     .title = what,                                                                         \
     .family = MP_FAMILY_##kind,                                                            \
     .layers = n_layers,                                                                    \
     .width = wide,                                                                         \
     .feed_forward = inner,                                                                 \
     .heads = n_heads,                                                                      \
     .key_value_heads = n_pairs,                                                            \
     .vocabulary = words,                                                                   \
     .sequence = length,                                                                    \
     __VA_ARGS__},
static const mp_architecture rows[] = {
#include "estimator/architectures/shapes.def"
};
#undef SHAPE

size_t mp_architecture_count(void)
{
    return sizeof rows / sizeof *rows;
}

const mp_architecture *mp_architecture_row(size_t k)
{
    return k < mp_architecture_count() ? &rows[k] : NULL;
}

const mp_architecture *mp_architecture_find(const char *name)
{
    for (size_t k = 0; k < mp_architecture_count(); k++)
        if (mp_names_are_alike(rows[k].name, name) || mp_names_are_alike(rows[k].title, name)) return &rows[k];
    return NULL;
}

mp_status mp_architecture_set(mp_architecture *a, const char *size, int64_t value, mp_error *err)
{
    const struct {
        const char *name;
        int64_t *field;
    } sizes[] = {{"layers", &a->layers},
                 {"width", &a->width},
                 {"feed-forward", &a->feed_forward},
                 {"heads", &a->heads},
                 {"key-value-heads", &a->key_value_heads},
                 {"head-width", &a->head_width},
                 {"vocabulary", &a->vocabulary},
                 {"sequence", &a->sequence},
                 {"patch", &a->patch},
                 {"experts", &a->experts},
                 {"experts-per-token", &a->experts_per_token}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        if (!mp_names_are_alike(sizes[k].name, size)) continue;
        if (sizes[k].field == &a->heads && a->key_value_heads == a->heads) a->key_value_heads = value;
        *sizes[k].field = value;
        return MP_OK;
    }
    return MP_FAIL(err, MP_INVALID,
                   "%s has no size '%s'; choose one of layers, width, feed-forward, heads, key-value-heads, head-width, "
                   "vocabulary, sequence, patch, experts, experts-per-token",
                   a->title, size);
}

enum { SEQUENCE_MAX = 1 << 20 }; /* the model stores the positions as constants, 8 bytes each */

/* Returns the number of patches along one side of a square image. The sequence of the network consists of all patches and a
 * class token. */
static int64_t patches_along(int64_t sequence)
{
    int64_t side = 0;
    while (sequence <= SEQUENCE_MAX && (side + 1) * (side + 1) <= sequence - 1) side++;
    return side;
}

static int64_t depth(const mp_architecture *a)
{
    return a->head_width ? a->head_width : a->width / a->heads;
}

enum { LAYERS_MAX = 10000 };

/* Fails if the sizes of an architecture are inconsistent, or would make the model too large. */
static mp_status check(const mp_architecture *a, int64_t batch, int64_t sequence, mp_error *err)
{
    const struct {
        const char *name;
        int64_t size, most;
    } sizes[] = {
        {"batch", batch, INT32_MAX},
        {"layers", a->layers, LAYERS_MAX},
        {"width", a->width, INT32_MAX},
        {"feed-forward", a->feed_forward, INT32_MAX},
        {"heads", a->heads, INT32_MAX},
        {"key-value-heads", a->key_value_heads, INT32_MAX},
        {"vocabulary", a->vocabulary, INT32_MAX},
        {"sequence", sequence, a->family == MP_FAMILY_T5 ? SEQUENCE_MAX / 2 : SEQUENCE_MAX}}; /* T5 stores two distances each */
    const int64_t side = patches_along(sequence);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        MP_ENSURE(sizes[k].size >= 1 && sizes[k].size <= sizes[k].most, err, MP_INVALID,
                  "%s: %s=%lld is out of range; choose 1 to %lld", a->title, sizes[k].name, (long long)sizes[k].size,
                  (long long)sizes[k].most);
    MP_ENSURE(a->head_width >= 0 && a->head_width <= INT16_MAX, err, MP_INVALID,
              "%s: head-width=%lld is out of range; choose 1 to %d", a->title, (long long)a->head_width, INT16_MAX);
    MP_ENSURE(a->head_width || a->width % a->heads == 0, err, MP_INVALID,
              "%s: a width of %lld cannot be split into %lld heads; choose a multiple of the heads", a->title,
              (long long)a->width, (long long)a->heads);
    MP_ENSURE(a->heads % a->key_value_heads == 0, err, MP_INVALID, "%s: %lld heads are not a multiple of %lld key-value heads",
              a->title, (long long)a->heads, (long long)a->key_value_heads);
    MP_ENSURE(a->family == MP_FAMILY_LLAMA || a->family == MP_FAMILY_GPT || a->key_value_heads == a->heads, err, MP_INVALID,
              "%s: only the GPT and Llama families support fewer key-value heads than heads", a->title);
    MP_ENSURE(a->family == MP_FAMILY_LLAMA || !a->experts, err, MP_INVALID, "%s: only the Llama family supports experts",
              a->title);
    MP_ENSURE(a->family != MP_FAMILY_LLAMA || depth(a) % 2 == 0, err, MP_INVALID,
              "%s: rotary positions need heads of an even width, but %lld is odd", a->title, (long long)depth(a));
    MP_ENSURE(a->family != MP_FAMILY_VIT ||
                  (a->patch >= 1 && a->patch <= INT16_MAX && side >= 1 && side * side + 1 == sequence),
              err, MP_INVALID, "%s: a sequence of %lld is not a square number of patches plus one class token", a->title,
              (long long)sequence);
    MP_ENSURE(!a->experts || (a->experts >= 1 && a->experts_per_token >= 1 && a->experts_per_token <= a->experts), err,
              MP_INVALID, "%s: a token cannot use %lld of %lld experts; choose experts-per-token from 1 to experts", a->title,
              (long long)a->experts_per_token, (long long)a->experts);
    MP_ENSURE(!a->experts || batch * sequence % a->experts == 0, err, MP_INVALID,
              "%s: %lld tokens cannot be split evenly over %lld experts; change the batch or the sequence", a->title,
              (long long)(batch * sequence), (long long)a->experts);
    return MP_OK;
}

/* Selects rows of a parameter table by index. */
static int looked_up(mp_sketch *n, const char *module, const char *table, int64_t entries, int index)
{
    const int weight = mp_sketch_parameter(n, table, 2, (int64_t[]){entries, n->shape->width});
    return mp_sketch_of_two(n, module, "Gather", weight, index);
}

/* Builds the learned position embeddings of a sequence. */
static int positions(mp_sketch *n)
{
    const int64_t longest = n->shape->sequence > n->sequence ? n->shape->sequence : n->sequence;
    MP_OWNED int64_t *index = mp_alloc((size_t)n->sequence, sizeof *index);
    for (int64_t k = 0; index && k < n->sequence; k++) index[k] = k;
    if (!index) n->status = MP_FAIL(n->err, MP_NOMEM, "no memory for %lld positions", (long long)n->sequence);
    return index ? looked_up(n, "position", "position.weight", longest, mp_sketch_list(n, "position", n->sequence, index)) : -1;
}

/* Adds a data input of shape (batch, sequence) with one integer per token, such as a token number. */
static int of_tokens(mp_sketch *n, const char *name)
{
    return mp_sketch_data(n, name, MP_DTYPE_INT64, 2, (int64_t[]){n->batch, n->sequence});
}

/* Builds token embeddings. *embedding is the table; the first call creates it. */
static int tokens_embedded(mp_sketch *n, int tokens, int *embedding)
{
    const mp_architecture *a = n->shape;
    const bool has_positions = a->family == MP_FAMILY_GPT || a->family == MP_FAMILY_BERT;
    const int types = a->family == MP_FAMILY_BERT ? of_tokens(n, "token_types") : -1;
    if (*embedding < 0) *embedding = mp_sketch_parameter(n, "embedding.weight", 2, (int64_t[]){a->vocabulary, a->width});
    int x = mp_sketch_of_two(n, "embedding", "Gather", *embedding, tokens);
    if (types >= 0) x = mp_sketch_of_two(n, "embedding", "Add", x, looked_up(n, "token_type", "token_type.weight", 2, types));
    if (has_positions) x = mp_sketch_of_two(n, "embedding", "Add", x, positions(n));
    if (types >= 0) x = mp_sketch_norm(n, "embedding/norm", x);
    return mp_sketch_dropout(n, "embedding", x);
}

/* Builds the embeddings of an image: a class token, followed by the patches. */
static int patches_embedded(mp_sketch *n)
{
    const mp_architecture *a = n->shape;
    const int64_t side = patches_along(n->sequence), pixels = side * a->patch, stride[] = {a->patch, a->patch};
    const mp_attribute strides = mp_attribute_ints("strides", stride, 2), joined = mp_attribute_int("axis", 1),
                       of_batch[] = {mp_attribute_int("start", 0), mp_attribute_int("end", 1)},
                       flat = mp_attribute_int("axis", 0);
    const int images = mp_sketch_data(n, "images", MP_DTYPE_FLOAT, 4, (int64_t[]){n->batch, 3, pixels, pixels});
    const int filter = mp_sketch_parameter(n, "patch.weight", 4, (int64_t[]){a->width, 3, a->patch, a->patch});
    const int bias = mp_sketch_parameter(n, "patch.bias", 1, &a->width);
    const int patches = mp_sketch_put(n, "patch", "Conv", (int[]){images, filter, bias}, 3, &strides, 1);
    const int rows = mp_sketch_of_two(n, "patch", "Reshape", patches, mp_sketch_list(n, "patch", 3, (int64_t[]){0, 0, -1}));
    const int across = mp_sketch_transpose(n, "patch", rows, (int64_t[]){0, 2, 1}, 3);
    const int token = mp_sketch_parameter(n, "class.weight", 3, (int64_t[]){1, 1, a->width});
    const int samples = mp_sketch_put(n, "class", "Shape", &images, 1, of_batch, 2);
    const int ones = mp_sketch_list(n, "class", 2, (int64_t[]){1, 1});
    const int shape = mp_sketch_put(n, "class", "Concat", (int[]){samples, ones}, 2, &flat, 1);
    const int each = mp_sketch_of_two(n, "class", "Expand", token, shape);
    const int all = mp_sketch_put(n, "patch", "Concat", (int[]){each, across}, 2, &joined, 1);
    const int place = mp_sketch_parameter(n, "position.weight", 3, (int64_t[]){1, n->sequence, a->width});
    return mp_sketch_dropout(n, "patch", mp_sketch_of_two(n, "patch", "Add", all, place));
}

/* Adds the operators that select the first token (the class token) of each sample. */
static int first_token(mp_sketch *n, const char *module, int x)
{
    const mp_attribute axis = mp_attribute_int("axis", 1);
    const int first = mp_sketch_integers(n, module, 0, NULL, (int64_t[]){0});
    return mp_sketch_put(n, module, "Gather", (int[]){x, first}, 2, &axis, 1);
}

/* Adds the operators after the layers, such as a final normalization, a pooler or a classifier. */
static int put_out(mp_sketch *n, int x, int embedding)
{
    const mp_architecture *a = n->shape;
    if (a->family == MP_FAMILY_BERT) {
        const int first = first_token(n, "pooler", x);
        return mp_sketch_of(n, "pooler", "Tanh", mp_sketch_linear(n, "pooler", first, a->width, a->width, true));
    }
    if (a->family == MP_FAMILY_T5) {
        const double scale =
            pow((double)a->width,
                -0.5); /* the classifier of T5 reuses the embedding table, so its input is scaled by 1 / sqrt(width) */
        x = mp_sketch_of_two(n, "classifier", "Mul", x, mp_sketch_numbers(n, "classifier", 0, NULL, &scale));
    } else {
        x = mp_sketch_norm(n, "norm", x);
    }
    if (a->family == MP_FAMILY_VIT)
        return mp_sketch_linear(n, "classifier", first_token(n, "classifier", x), a->width, a->vocabulary, true);
    if (!a->is_tied) return mp_sketch_linear(n, "classifier", x, a->width, a->vocabulary, false);
    const int turned = mp_sketch_transpose(n, "classifier", embedding, (int64_t[]){1, 0}, 2);
    return mp_sketch_of_two(n, "classifier", "MatMul", x, turned);
}

/* Builds all layers of an encoder or decoder on tensor x; `before` is the prefix of the layers' names. */
static int layers_on(mp_sketch *n, const char *before, int x)
{
    for (int64_t k = 0; k < n->shape->layers; k++) {
        snprintf(n->layer, sizeof n->layer, "%slayers.%lld", before, (long long)k);
        x = mp_layers_add(n, x);
    }
    n->layer[0] = '\0';
    return x;
}

/* Builds a network with an encoder and a decoder. */
static int encoded_and_decoded(mp_sketch *n, int *embedding)
{
    const int tokens = of_tokens(n, "tokens"),
              decoded = of_tokens(
                  n, "decoder_tokens"); /* the data inputs are added first, so that they precede the weights in an ONNX file */
    int x = tokens_embedded(n, tokens, embedding);
    n->bias = mp_layers_distances(n, "encoder");
    x = mp_sketch_norm(n, "encoder/norm", layers_on(n, "encoder.", x));
    n->memory = mp_sketch_dropout(n, "encoder", x);
    n->is_causal = true;
    x = tokens_embedded(n, decoded, embedding);
    n->bias = mp_layers_distances(n, "decoder");
    x = mp_sketch_norm(n, "decoder/norm", layers_on(n, "decoder.", x));
    return mp_sketch_dropout(n, "decoder", x);
}

static mp_status build(mp_sketch *n)
{
    const mp_architecture_family family = n->shape->family;
    int embedding = -1, x;
    mp_layers_share(n);
    if (family == MP_FAMILY_T5)
        x = encoded_and_decoded(n, &embedding);
    else
        x = layers_on(n, "",
                      family == MP_FAMILY_VIT ? patches_embedded(n) : tokens_embedded(n, of_tokens(n, "tokens"), &embedding));
    x = put_out(n, x, embedding);
    MP_CHECK(n->status);
    MP_CHECK(mp_model_declare_output(n->model, x, n->err));
    return mp_model_infer(n->model, n->err);
}

mp_status mp_architecture_model(const mp_architecture *a, int64_t batch, int64_t sequence, mp_model **out, mp_error *err)
{
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    if (!batch) batch = 1;
    if (!sequence) sequence = a->sequence;
    MP_CHECK(check(a, batch, sequence, err));
    MP_CHECK(mp_model_new(a->name, "", &model, err));
    mp_sketch n = {.model = model, .shape = a, .batch = batch, .sequence = sequence, .depth = depth(a), .err = err};
    n.bias = n.memory = -1;
    n.mask = n.hidden = n.scale = n.cosine = n.sine = n.ratio = n.training = -1;
    n.split_heads = n.split_pairs = n.repeat = n.join_groups = n.merge_heads = -1;
    MP_CHECK(build(&n));
    *out = model;
    model = NULL;
    return MP_OK;
}

const char *mp_architecture_block_path(const mp_architecture *a, const char *block, char *text, size_t size)
{
    static const struct {
        mp_architecture_family family;
        /* `ours`: prefix of a module path in memplan's model; `theirs`: the corresponding prefix in Hugging Face's
         * transformers */
        const char *ours, *theirs;
    } rows[] = {
        {MP_FAMILY_GPT, "layers.", "transformer.h."},        {MP_FAMILY_LLAMA, "layers.", "model.layers."},
        {MP_FAMILY_BERT, "layers.", "bert.encoder.layer."},  {MP_FAMILY_VIT, "layers.", "vit.layers."},
        {MP_FAMILY_T5, "encoder.layers.", "encoder.block."}, {MP_FAMILY_T5, "decoder.layers.", "decoder.block."},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const size_t length = strlen(rows[k].ours);
        if (rows[k].family != a->family || strncmp(block, rows[k].ours, length)) continue;
        snprintf(text, size, "%s%s", rows[k].theirs, block + length);
        return text;
    }
    snprintf(text, size, "%s", block);
    return text;
}

mp_status mp_architecture_parameters(const mp_architecture *a, int64_t *n, mp_error *err)
{
    MP_OWNED_BY(mp_model_free) mp_model *model = NULL;
    int64_t sum = 0;
    MP_CHECK(mp_architecture_model(a, a->experts, 0, &model, err));
    for (size_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].role == MP_ROLE_PARAMETER && !mp_add(sum, mp_tensor_elements(&model->tensors[t]), &sum))
            return MP_FAIL(err, MP_INVALID, "%s has more parameters than can be counted", a->title);
    *n = sum;
    return MP_OK;
}
