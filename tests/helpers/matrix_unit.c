/* AMX in software: a register is a place in a ring, and each instruction returns a new one. It counts wrong shapes. */
#include <stdint.h>
#include <string.h>

typedef struct {
    int rows, bytes;
    uint8_t data[16][64];
} tile;

int amx_errors, amx_products;
static tile ring[4096];
static unsigned next;

static tile *make(int rows, int bytes) {
    tile *t = &ring[next++ % 4096];
    memset(t, 0, sizeof *t);
    t->rows = rows;
    t->bytes = bytes;
    amx_errors += rows < 1 || rows > 16 || bytes < 4 || bytes > 64 || bytes % 4;
    return t;
}

tile *amx_tilezero(int16_t rows, int16_t bytes) { return make(rows, bytes); }

tile *amx_tileloadd64(int16_t rows, int16_t bytes, const uint8_t *from, int64_t step) {
    tile *t = make(rows, bytes);
    for (int i = 0; i < rows; i++) memcpy(t->data[i], from + i * step, bytes);
    return t;
}

void amx_tilestored64(int16_t rows, int16_t bytes, uint8_t *to, int64_t step, const tile *t) {
    amx_errors += t->rows != rows || t->bytes != bytes;
    for (int i = 0; i < rows; i++) memcpy(to + i * step, t->data[i], bytes);
}

static tile *product(int m, int n, int k, const tile *c, const tile *a, const tile *b) {
    tile *t = make(m, n);
    memcpy(t->data, c->data, sizeof t->data);
    amx_products++;
    amx_errors += c->rows != m || c->bytes != n || a->rows != m || a->bytes != k || b->rows != k / 4 || b->bytes != n;
    return t;
}

static float f32_of(const uint8_t *bf16) {
    uint32_t bits = (uint32_t)bf16[0] << 16 | (uint32_t)bf16[1] << 24;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

tile *amx_tdpbf16ps(int16_t m, int16_t n, int16_t k, const tile *c, const tile *a, const tile *b) {
    tile *t = product(m, n, k, c, a, b);
    for (int i = 0; i < m; i++)
        for (int w = 0; w < k; w += 4)
            for (int j = 0; j < n; j += 4) {
                float *sum = (float *)&t->data[i][j];
                for (int e = 0; e < 4; e += 2) *sum += f32_of(&a->data[i][w + e]) * f32_of(&b->data[w / 4][j + e]);
            }
    return t;
}

#define BYTES(NAME, A, B) \
    tile *NAME(int16_t m, int16_t n, int16_t k, const tile *c, const tile *a, const tile *b) { \
        tile *t = product(m, n, k, c, a, b); \
        for (int i = 0; i < m; i++) \
            for (int w = 0; w < k; w += 4) \
                for (int j = 0; j < n; j += 4) { \
                    uint32_t *sum = (uint32_t *)&t->data[i][j]; \
                    for (int e = 0; e < 4; e++) \
                        *sum += (uint32_t)((int32_t)(A)a->data[i][w + e] * (int32_t)(B)b->data[w / 4][j + e]); \
                } \
        return t; \
    }
BYTES(amx_tdpbssd, int8_t, int8_t)
BYTES(amx_tdpbsud, int8_t, uint8_t)
BYTES(amx_tdpbusd, uint8_t, int8_t)
BYTES(amx_tdpbuud, uint8_t, uint8_t)
