/* The mark of functions that Python calls. */
#ifndef KR_EXPORT_H
#define KR_EXPORT_H

#if defined(__GNUC__)
#define EXPORT __attribute__((visibility("default")))
#else
#define EXPORT
#endif

#endif
