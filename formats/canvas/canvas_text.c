/* canvas_text.c - text for pictures: clean UTF-8 and estimated widths.
 *
 * The width of a character is its advance in DejaVu Sans, the preferred font of pictures, in thousandths of the font size.
 * Layout uses these widths instead of the installed fonts, so that a picture is the same on every machine. */
#include "formats/canvas/canvas.h"

#include <string.h>

#include "estimator/base/visible_text.h"
#include "formats/base/text.h"

#define HEAD_SHARE 0.4 /* fraction of a shortened text's characters before the ellipsis; the remaining characters follow it */

enum {
    REPLACEMENT = 0xFFFD,
    WIDE_FROM = 0x2E80 /* characters from WIDE_FROM on (East Asian scripts and symbols) are as wide as they are high */
};

static const short advance[2][95] = {
    {318, 401, 460, 838, 636, 950, 780, 275, 390,  390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636,
     636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
     603, 787, 695, 635, 611, 732, 684, 989, 685,  611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635,
     634, 278, 278, 579, 278, 974, 634, 612, 635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838},
    {348, 456, 521, 838, 696, 1002, 872, 306,  457,  457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696, 696,
     696, 696, 400, 400, 838, 838,  838, 580,  1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850,
     733, 850, 770, 720, 682, 812,  774, 1103, 771,  724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678, 435, 716,
     712, 343, 343, 665, 343, 1042, 712, 687,  716,  716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838},
};

uint32_t mp_canvas_next(const char **text)
{
    const int32_t c = mp_utf8_next(text);
    if (c == '\n' || c == '\t' || c == '\r') return (uint32_t)c;
    return mp_is_steering(c) || (c & 0xFFFE) == 0xFFFE ? REPLACEMENT : (uint32_t)c;
}

static size_t put(uint32_t c, char *to)
{
    if (c < 0x80) return to[0] = (char)c, 1;
    if (c < 0x800) return to[0] = (char)(0xC0 | c >> 6), to[1] = (char)(0x80 | (c & 0x3F)), 2;
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 0x3F)), to[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 0x3F));
    to[2] = (char)(0x80 | (c >> 6 & 0x3F)), to[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

size_t mp_canvas_clean(const char *text, bool lines, char *to)
{
    size_t n = 0;
    while (*text) {
        uint32_t c = mp_canvas_next(&text);
        if (c == '\t' || c == '\r' || (c == '\n' && !lines)) c = ' ';
        n += put(c, to + n);
    }
    to[n] = '\0';
    return n;
}

static double character_width(uint32_t c, double size, bool bold)
{
    int thousandths = c >= ' ' && c < 0x7F ? advance[bold][c - ' '] : c >= WIDE_FROM ? 1000 : 640;
    return thousandths * size / 1000;
}

double mp_canvas_text_width(const char *text, double size, bool bold)
{
    double width = 0;
    while (*text) width += character_width(mp_canvas_next(&text), size, bold);
    return width;
}

double mp_canvas_fitting_size(const char *text, double size, double least, bool bold, double width)
{
    while (size > least && mp_canvas_text_width(text, size, bold) > width) size -= 0.25;
    return size;
}

/* The font size, the weight and the available width of a shortened text. */
typedef struct space {
    double size, width;
    bool bold;
} space;

/* Shortens a text, with `mark` between two ellipses in the middle. */
static const char *shorten(const char *text, const char *mark, const void *how)
{
    const space *in = how;
    const char *ellipsis = *mark ? mp_text("\xE2\x80\xA6%s\xE2\x80\xA6", mark) : "\xE2\x80\xA6", *head = text, *tail;
    double has = mp_canvas_text_width(text, in->size, in->bold), head_width = 0;
    if (!*mark && has <= in->width && strlen(text) < MP_CANVAS_LINE) return text;
    const size_t left = MP_CANVAS_LINE - strlen(ellipsis) - 1;
    const double width = in->width - mp_canvas_text_width(ellipsis, in->size, in->bold);
    for (const char *next = text; *next; head = next) {
        const double more = character_width(mp_canvas_next(&next), in->size, in->bold);
        if (head_width + more > HEAD_SHARE * width || (double)(next - text) > HEAD_SHARE * (double)left) break;
        head_width += more;
    }
    const size_t head_length = (size_t)(head - text);
    for (tail = head; *tail && (has > width || head_length + strlen(tail) > left);)
        has -= character_width(mp_canvas_next(&tail), in->size, in->bold);
    return mp_text("%.*s%s%s", (int)head_length, text, ellipsis, tail);
}

const char *mp_canvas_shorten(const char *text, double size, bool bold, double width)
{
    const space in = {.size = size, .width = width, .bold = bold};
    return shorten(text, "", &in);
}

const char *mp_canvas_distinct(mp_distinct_names *names, const char *name, const char *text, double size, bool bold,
                               double width)
{
    const space in = {.size = size, .width = width, .bold = bold};
    return mp_distinct_name(names, name, text, shorten, &in);
}
