# What the makefiles of the box and of the phone share. BOX is the directory of the box.
CC ?= cc
AR ?= ar
BUILD ?= build
CFLAGS ?= -Os
WARNINGS = -std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
INCLUDES = -Iinclude -Isrc -I$(BOX)/include -I$(BOX)/src -I$(BOX)/ports -I$(BOX)/tests
COMPILE = $(CC) $(CFLAGS) $(WARNINGS) -ffunction-sections -fdata-sections -fPIC $(INCLUDES) -fstack-usage -c -o $@ $<
LIBS = -lbearssl
HEADERS := $(wildcard include/*.h src/*.h $(foreach part,include src ports tests,$(BOX)/$(part)/*.h))

.PHONY: all size clean

all:

$(BUILD)/%.a:
	rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%.o: src/%.c $(HEADERS) | $(BUILD)
	$(COMPILE)

$(BUILD)/%.o: tests/%.c $(HEADERS) | $(BUILD)
	$(COMPILE)

$(BUILD)/%.o: $(BOX)/ports/%.c $(HEADERS) | $(BUILD)
	$(COMPILE)

$(BUILD):
	mkdir -p $@

clean:
	rm -rf $(BUILD)
