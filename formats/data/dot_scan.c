/* dot_scan.c - reads tokens of DOT text as Graphviz's lexer does, and counts them before Graphviz reads the text. */
#include "formats/data/dot_scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "formats/base/text.h"

enum { NEVER = 1 << 28 }; /* number of nodes that is assumed for a group of unknown size */

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_SUBGRAPH, TOKEN_EDGE, TOKEN_OTHER } token_kind;

typedef struct token {
    token_kind kind;
    char symbol; /* the character itself, if the token has kind TOKEN_OTHER */
    const char *text;
    size_t length;
    int line, column;
} token;

typedef struct scanner {
    const char *path;
    const char *at, *end, *line_start;
    int line;
    mp_error *err;
} scanner;

static mp_status fail_at(const scanner *s, const char *where, const char *what)
{
    return MP_FAIL_AT(s->err, MP_PARSE, s->path, s->line, (int)(where - s->line_start) + 1, "%s", what);
}

static void step(scanner *s)
{
    if (*s->at == '\n') {
        s->line++;
        s->line_start = s->at + 1;
    }
    s->at++;
}

static bool sees(const scanner *s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s->end - s->at) >= n && !memcmp(s->at, text, n);
}

/* Skips white space and comments. */
static mp_status skip(scanner *s)
{
    while (s->at < s->end) {
        if (strchr(" \t\r\n", *s->at)) {
            step(s);
        } else if (*s->at == '#' || sees(s, "//")) {
            while (s->at < s->end && *s->at != '\n') s->at++;
        } else if (sees(s, "/*")) {
            const char *start = s->at;
            s->at += 2;
            while (s->at < s->end && !sees(s, "*/")) step(s);
            if (s->at >= s->end) return fail_at(s, start, "a comment does not end");
            s->at += 2;
        } else {
            break;
        }
    }
    return MP_OK;
}

static mp_status quoted(scanner *s)
{
    int line = s->line, column = (int)(s->at - s->line_start) + 1;
    for (s->at++; s->at < s->end && *s->at != '"'; step(s))
        if (*s->at == '\\' && s->at + 1 < s->end) step(s);
    if (s->at < s->end) {
        s->at++;
        return MP_OK;
    }
    return MP_FAIL_AT(s->err, MP_PARSE, s->path, line, column, "a quoted text does not end");
}

static mp_status html(scanner *s)
{
    int depth = 0;
    do {
        if (s->at >= s->end) return fail_at(s, s->at, "an HTML text does not end");
        if (sees(s, "<!--")) return fail_at(s, s->at, "a comment within an HTML text is not supported");
        depth += *s->at == '<' ? 1 : *s->at == '>' ? -1 : 0;
        step(s);
    } while (depth > 0);
    return MP_OK;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void word(scanner *s)
{
    if (is_letter(*s->at)) {
        while (s->at < s->end && (is_letter(*s->at) || is_digit(*s->at))) s->at++;
        return;
    }
    s->at += *s->at == '-';
    while (s->at < s->end && (is_digit(*s->at) || *s->at == '.')) s->at++;
}

static mp_status next(scanner *s, token *out)
{
    MP_CHECK(skip(s));
    *out = (token){.kind = TOKEN_END, .text = s->at, .line = s->line, .column = (int)(s->at - s->line_start) + 1};
    if (s->at >= s->end) return MP_OK;
    out->kind = TOKEN_NAME;
    if (*s->at == '"') {
        MP_CHECK(quoted(s));
    } else if (*s->at == '<') {
        MP_CHECK(html(s));
    } else if (sees(s, "->") || sees(s, "--")) {
        out->kind = TOKEN_EDGE;
        s->at += 2;
    } else if (is_letter(*s->at) || is_digit(*s->at) || *s->at == '.' ||
               (*s->at == '-' && s->at + 1 < s->end && (is_digit(s->at[1]) || s->at[1] == '.'))) {
        word(s);
        if (s->at - out->text == 8 && !strncasecmp(out->text, "subgraph", 8)) out->kind = TOKEN_SUBGRAPH;
    } else {
        out->kind = TOKEN_OTHER;
        out->symbol = *s->at;
        step(s);
    }
    out->length = (size_t)(s->at - out->text);
    return MP_OK;
}

/* The state of the check of a DOT text after all tokens that have been read so far. */
typedef struct state {
    token last; /* the last token that has been read */
    bool in_list;
    bool named; /* true if the last token was the word "subgraph" or the name after it */
    int depth;
    int64_t n_names, n_mentions, n_tokens, n_edges;
    struct level {            /* a level of nesting: a group in braces that is not closed yet */
        int64_t names_before; /* n_names when the group began */
        bool edge_into;       /* true if an edge leads to the group in braces */
        int64_t left;         /* number of nodes at the source of the edge that leads to the group */
        bool hidden; /* true if the group in braces refers to a subgraph by name, so that its number of nodes is unknown */
        int chain;   /* number of edges so far in the DOT statement that contains the group in braces */
    } levels[MP_DOT_DEPTH_MAX + 1];
    int64_t left; /* number of nodes in the last item; an item is a node or a group */
    bool edge;    /* true if the last item (a node or a group) is the source of an edge */
    /* number of nodes at the source of the last edge. If the target of the edge is a list of nodes, the number applies to each
     * of them */
    int64_t edge_left;
    bool in_edge;
    int chain;
    size_t n_attributes;
    struct name {
        const char *text;
        size_t length;
    } attributes[MP_DOT_ATTRIBUTES_MAX];
} state;

static mp_status fail(const scanner *s, const token *t, const char *what, int limit)
{
    const char *most = limit ? mp_text(" (%d are the most)", limit) : "";
    return MP_FAIL_AT(s->err, MP_PARSE, s->path, t->line, t->column, "%s%s", what, most);
}

static mp_status note_attribute(const scanner *s, state *now)
{
    for (size_t k = 0; k < now->n_attributes; k++)
        if (now->attributes[k].length == now->last.length && !memcmp(now->attributes[k].text, now->last.text, now->last.length))
            return MP_OK;
    if (now->n_attributes == MP_DOT_ATTRIBUTES_MAX)
        return fail(s, &now->last, "too many different attributes", MP_DOT_ATTRIBUTES_MAX);
    now->attributes[now->n_attributes++] = (struct name){now->last.text, now->last.length};
    return MP_OK;
}

/* Counts an item of `count` nodes. An item is a node or a group. It is the target of an edge, or starts a statement. */
static mp_status note_end(const scanner *s, state *now, const token *t, int64_t count)
{
    if (now->edge) {
        if (count >= NEVER || now->edge_left >= NEVER)
            return fail(s, t, "an edge from or to a subgraph is supported only as { ... }", 0);
        now->n_edges += count * now->edge_left;
        if (now->n_edges > MP_DOT_EDGES_MAX) return fail(s, t, "too many edges", MP_DOT_EDGES_MAX);
    } else {
        now->chain = 0;
    }
    now->in_edge = now->edge;
    now->edge = false;
    now->left = count;
    return MP_OK;
}

/* Counts one more node of a list at one end of an edge, as in "a, b -> c, d". */
static mp_status note_another(const scanner *s, state *now, const token *t)
{
    int64_t left = now->left + 1;
    now->edge = now->in_edge;
    MP_CHECK(note_end(s, now, t, 1));
    now->left = left;
    return MP_OK;
}

static mp_status note_brace(const scanner *s, state *now, const token *t)
{
    if (t->symbol == '{') {
        if (now->depth == MP_DOT_DEPTH_MAX) return fail(s, t, "subgraphs too deep within each other", MP_DOT_DEPTH_MAX);
        now->levels[++now->depth] = (struct level){now->n_names, now->edge, now->edge_left, now->named, now->chain};
        now->edge = false;
        return MP_OK;
    }
    if (now->depth == 0) return MP_OK; /* an unmatched brace is not an error here, because Graphviz's parser reports it */
    struct level level = now->levels[now->depth--];
    now->levels[now->depth].hidden |= level.hidden;
    now->edge = level.edge_into;
    now->edge_left = level.left;
    now->chain = level.chain;
    int64_t count = now->n_names - level.names_before;
    return note_end(s, now, t, level.hidden ? NEVER : count > 0 ? count : 1);
}

static mp_status note(const scanner *s, state *now, const token *t)
{
    if (t->kind == TOKEN_SUBGRAPH) {
        /* "subgraph x { ... }" is a definition, and "subgraph x" alone is a reference; the brace after it distinguishes the
         * two */
        now->levels[now->depth].hidden = now->named = true;
        if (now->edge) now->edge_left = NEVER;
        now->left = NEVER;
    } else if (t->kind == TOKEN_NAME) {
        now->n_names++;
        bool port =
            now->last.kind == TOKEN_OTHER && (now->last.symbol == ':' || now->last.symbol == '+' || now->last.symbol == '=');
        if (now->in_list || port || now->last.kind == TOKEN_SUBGRAPH) return MP_OK;
        if (++now->n_mentions > MP_DOT_MENTIONS_MAX) return fail(s, t, "too many nodes and edges", MP_DOT_MENTIONS_MAX);
        const bool is_another = now->last.kind == TOKEN_OTHER && now->last.symbol == ',';
        return is_another ? note_another(s, now, t) : note_end(s, now, t, 1);
    } else if (t->kind == TOKEN_EDGE && !now->in_list) {
        if (++now->chain > MP_DOT_CHAIN_MAX) return fail(s, t, "too many edges in one statement", MP_DOT_CHAIN_MAX);
        now->edge = true;
        now->edge_left = now->left;
    } else if (t->kind == TOKEN_OTHER) {
        if (t->symbol == '[') now->in_list = true;
        if (t->symbol == ']') now->in_list = false;
        if (t->symbol == '=') return note_attribute(s, now);
        if ((t->symbol == '{' || t->symbol == '}') && !now->in_list) return note_brace(s, now, t);
    }
    return MP_OK;
}

mp_status mp_dot_scan(const char *path, const char *text, size_t size, mp_error *err)
{
    scanner s = {.path = path, .at = text, .end = text + size, .line_start = text, .line = 1, .err = err};
    state now = {.left = 1};
    if (memchr(text, '\0', size)) return fail_at(&s, text, "a zero byte is no DOT text");
    for (;;) {
        token t;
        MP_CHECK(next(&s, &t));
        if (t.kind == TOKEN_END) return MP_OK;
        if (++now.n_tokens > MP_DOT_TOKENS_MAX) return fail(&s, &t, "too many words", MP_DOT_TOKENS_MAX);
        MP_CHECK(note(&s, &now, &t));
        now.named = t.kind == TOKEN_SUBGRAPH || (now.last.kind == TOKEN_SUBGRAPH && t.kind == TOKEN_NAME);
        now.last = t;
    }
}
