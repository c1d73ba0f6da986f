// JPEG by libjpeg-turbo, with its exact integer transform and smooth upsampling, as Pillow uses it.
#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/strings.h"
#include "hone/error.h"
#include "images/formats.h"
#include "images/orientation.h"

extern "C" {
#include <jerror.h>
#include <jpeglib.h>
}

namespace hone::images {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr std::string_view kExifName{"Exif\0\0", 6}, kXmpName{"http://ns.adobe.com/xap/1.0/\0", 29};
constexpr int kMaxScans = 500;  // of a progressive file: each goes over all of the picture

// libjpeg's state. Its errors jump back into the function of ours that called it, which has nothing to destroy.
struct JpegReader {
  explicit JpegReader(std::string_view file);
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::data, "a damaged JPEG: " + hone::escape_for_terminal(message));
  }

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back{};
  char message[JMSG_LENGTH_MAX] = {};
};

JpegReader& reader_of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

void on_error(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  info->err->format_message(info, reader.message);
  std::longjmp(reader.back, 1);
}

void say(JpegReader& reader, const char* fact) {
  std::snprintf(reader.message, sizeof reader.message, "%s", fact);
  std::longjmp(reader.back, 1);
}

// The whole file is there from the beginning: whoever wants more has come to its end.
boolean on_end(j_decompress_ptr info) {
  say(reader_of(reinterpret_cast<j_common_ptr>(info)), "the file ends too soon");
  return FALSE;
}

void on_skip(j_decompress_ptr info, long bytes) {
  if (bytes <= 0) return;
  if (static_cast<std::size_t>(bytes) > info->src->bytes_in_buffer) on_end(info);
  info->src->next_input_byte += bytes;
  info->src->bytes_in_buffer -= static_cast<std::size_t>(bytes);
}

void on_progress(j_common_ptr info) {
  if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans)
    say(reader_of(info), "more than 500 scans");
}

JpegReader::JpegReader(std::string_view file) {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  errors.emit_message = [](j_common_ptr, int) {};
  errors.output_message = [](j_common_ptr) {};
  info.client_data = this;
  source.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
  source.bytes_in_buffer = file.size();
  source.init_source = [](j_decompress_ptr) {};
  source.fill_input_buffer = on_end;
  source.skip_input_data = on_skip;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = [](j_decompress_ptr) {};
  progress.progress_monitor = on_progress;
}

bool read_header(JpegReader& reader) {
  if (setjmp(reader.back) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.info.src = &reader.source;
  reader.info.progress = &reader.progress;
  jpeg_save_markers(&reader.info, kExifMarker, 0xFFFF);
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

// to: the first row; `step` bytes from one to the next.
bool read_rows(JpegReader& reader, std::uint8_t* to, std::size_t step) {
  if (setjmp(reader.back) != 0) return false;
  jpeg_decompress_struct& info = reader.info;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = to + info.output_scanline * step;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);  // reads to the end of the picture, which must be there
  return true;
}

// Of all such markers, one behind the other, as EXIF data may be cut; of XMP the first one only.
std::string marked(const JpegReader& reader, std::string_view name, bool all) {
  std::string found;
  for (const jpeg_marker_struct* marker = reader.info.marker_list; marker; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (marker->marker != kExifMarker || !data.starts_with(name) || (!all && !found.empty())) continue;
    found += data.substr(name.size());
  }
  return found;
}

bool is_jpeg(std::string_view file) { return file.starts_with("\xff\xd8\xff"); }

Header jpeg_header(std::string_view file) {
  JpegReader reader(file);
  if (!read_header(reader)) reader.fail();
  return {{reader.info.image_height, reader.info.image_width},
          orientation_of(marked(reader, kExifName, true), marked(reader, kXmpName, false))};
}

std::uint8_t product_of(int a, int b) {  // of shares in 255ths
  const int product = a * b + 128;
  return static_cast<std::uint8_t>(((product >> 8) + product) >> 8);
}

// Inks are stored as what they leave over, which is what Adobe's programs began.
void from_inks(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to) {
  for (std::int64_t i = 0; i < pixels; ++i, from += 4, to += 3)
    for (int c = 0; c < 3; ++c) {
      const int left = from[3] - product_of(255 - from[c], from[3]);
      to[c] = static_cast<std::uint8_t>(left < 0 ? 0 : left);
    }
}

Picture decode_jpeg(std::string_view file, const Extent& extent) {
  JpegReader reader(file);
  if (!read_header(reader)) reader.fail();
  Picture picture(extent);
  const int parts = reader.info.num_components;
  if (parts != 1 && parts != 3 && parts != 4)
    throw Error(ErrorKind::data, fmt::format("a JPEG of {} components; expected 1, 3 or 4", parts));
  if (parts != 4) {
    reader.info.out_color_space = JCS_RGB;
    if (!read_rows(reader, picture.row(0), static_cast<std::size_t>(extent.width) * 3)) reader.fail();
    return picture;
  }
  reader.info.out_color_space = JCS_CMYK;
  const auto inks = std::make_unique_for_overwrite<std::uint8_t[]>(extent.pixels() * 4);
  if (!read_rows(reader, inks.get(), static_cast<std::size_t>(extent.width) * 4)) reader.fail();
  from_inks(inks.get(), extent.pixels(), picture.row(0));
  return picture;
}

}  // namespace

const Format kJpeg = {is_jpeg, jpeg_header, decode_jpeg};

}  // namespace hone::images
