/* The kernels in a cubin, and the parameters that each takes: from the sections .nv.info.NAME of an ELF file. */
#include "fake_driver.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define INFO ".nv.info."
#define SIZED 4          /* the attribute's two last bytes are a number of bytes that follow */
#define PARAMETER 0x17   /* EIATTR_KPARAM_INFO */

static void read_parameters(struct kernel *kernel, const unsigned char *at, const unsigned char *end) {
    while (at + 4 <= end) {
        uint16_t length, ordinal;
        uint32_t flags;
        int form = at[0], attribute = at[1];
        memcpy(&length, at + 2, 2);
        at += 4;
        if (form != SIZED) continue;
        if (attribute == PARAMETER && length >= 12 && at + 12 <= end) {
            memcpy(&ordinal, at + 4, 2);
            memcpy(&flags, at + 8, 4);
            if (ordinal < MOST_PARAMETERS) {
                kernel->sizes[ordinal] = (int)(flags >> 18);
                if (ordinal >= kernel->count) kernel->count = ordinal + 1;
            }
        }
        at += length;
    }
}

struct image *image_of(const void *code) {
    const unsigned char *bytes = code;
    const Elf64_Ehdr *elf = code;
    const Elf64_Shdr *sections;
    const char *names;
    struct image *image;
    int index;
    if (code == NULL || memcmp(bytes, ELFMAG, SELFMAG) != 0 || bytes[EI_CLASS] != ELFCLASS64) return NULL;
    image = calloc(1, sizeof *image);
    if (image == NULL) return NULL;
    sections = (const Elf64_Shdr *)(const void *)(bytes + elf->e_shoff);
    names = (const char *)bytes + sections[elf->e_shstrndx].sh_offset;
    for (index = 0; index < elf->e_shnum; index++) {
        const char *name = names + sections[index].sh_name;
        struct kernel *kernel;
        if (strncmp(name, INFO, strlen(INFO)) != 0) continue;
        kernel = calloc(1, sizeof *kernel);
        if (kernel == NULL) abort();
        kernel->name = strdup(name + strlen(INFO));
        kernel->next = image->kernels;
        image->kernels = kernel;
        read_parameters(kernel, bytes + sections[index].sh_offset,
                        bytes + sections[index].sh_offset + sections[index].sh_size);
    }
    return image;
}

void free_image(struct image *image) {
    while (image->kernels != NULL) {
        struct kernel *kernel = image->kernels;
        image->kernels = kernel->next;
        free(kernel->name);
        free(kernel);
    }
    free(image);
}

struct kernel *kernel_named(struct image *image, const char *name) {
    struct kernel *kernel = image->kernels;
    while (kernel != NULL && strcmp(kernel->name, name) != 0) kernel = kernel->next;
    return kernel;
}
