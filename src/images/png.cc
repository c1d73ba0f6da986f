// PNG by libpng: palettes, grey of any depth, sixteen bits, rows in passes.
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/strings.h"
#include "hone/error.h"
#include "images/formats.h"
#include "images/orientation.h"

namespace hone::images {
namespace {

constexpr std::string_view kPngMark{"\x89PNG\r\n\x1a\n", 8}, kXmpKey{"XML:com.adobe.xmp\0", 18};

bool is_png(std::string_view file) { return file.starts_with(kPngMark); }

std::uint32_t big_endian(std::string_view four) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(four[i]);
  return value;
}

// Calls visit(name, data) for each chunk until it says false; ends quietly where the file does.
template <class Visitor>
void each_chunk(std::string_view file, Visitor&& visit) {
  constexpr std::size_t kAround = 12;  // length and name before the data, a checksum behind them
  for (file.remove_prefix(kPngMark.size()); file.size() >= kAround;) {
    const std::uint32_t length = big_endian(file);
    if (length > file.size() - kAround) return;
    if (!visit(file.substr(4, 4), file.substr(8, length))) return;
    file.remove_prefix(length + kAround);
  }
}

// Of an iTXt chunk: key, whether and how it is compressed, language, key in that language, text. XMP is not compressed.
std::string_view xmp_in(std::string_view data) {
  if (!data.starts_with(kXmpKey)) return {};
  data.remove_prefix(kXmpKey.size());
  if (data.size() < 2 || data[0] != 0) return {};
  data.remove_prefix(2);
  for (int text = 0; text < 2; ++text) {
    const std::size_t end = data.find('\0');
    if (end == data.npos) return {};
    data.remove_prefix(end + 1);
  }
  return data;
}

Header png_header(std::string_view file) {
  Header header;
  std::string_view exif, xmp;
  bool is_first = true, is_good = false;
  each_chunk(file, [&](std::string_view name, std::string_view data) {
    if (is_first && name == "IHDR" && data.size() == 13) {
      header.extent = {big_endian(data.substr(4)), big_endian(data)};
      is_good = true;
    }
    is_first = false;
    if (name == "eXIf") exif = data;
    if (name == "iTXt" && xmp.empty()) xmp = xmp_in(data);
    return is_good;
  });
  if (!is_good) throw Error(ErrorKind::data, "a damaged PNG: its header is cut or is not there");
  header.orientation = orientation_of(exif, xmp);
  return header;
}

// libpng's state. Its errors jump back into the function of ours that called it, which has nothing to destroy.
struct PngReader {
  explicit PngReader(std::string_view file);
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::data, "a damaged PNG: " + hone::escape_for_terminal(message));
  }

  std::string_view rest;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[200] = {};
};

void on_png_error(png_structp png, png_const_charp text) {
  PngReader& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader.message, sizeof reader.message, "%s", text);
  png_longjmp(png, 1);
}

void on_png_read(png_structp png, png_bytep to, std::size_t bytes) {
  PngReader& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (bytes > reader.rest.size()) png_error(png, "the file ends too soon");
  std::memcpy(to, reader.rest.data(), bytes);
  reader.rest.remove_prefix(bytes);
}

PngReader::PngReader(std::string_view file) : rest(file) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_png_error, [](png_structp, png_const_charp) {});
  info = png ? png_create_info_struct(png) : nullptr;
  if (!info) throw Error(ErrorKind::data, "a PNG: no memory to read it");
}

// What there is becomes red, green, blue and opacity of eight bits each. Returns the passes, 0 after an error.
int read_png_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return 0;
  png_set_read_fn(reader.png, &reader, on_png_read);
  png_set_user_limits(reader.png, kMaxSide, kMaxSide);
  // But for these of which pixels are made, chunks are passed over: libpng would make room for what their lengths say.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_crc_action(reader.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);
  png_set_gray_to_rgb(reader.png);
  png_set_add_alpha(reader.png, 0xff, PNG_FILLER_AFTER);
  const int passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return passes;
}

// Each pass goes over all rows and needs what the earlier ones have left there; of one pass a row is laid upon white at
// once and its place used again.
bool read_png_rows(PngReader& reader, int passes, std::uint8_t* rows, Picture& picture) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  const std::int64_t step = picture.width() * 4;
  for (int pass = 0; pass < passes; ++pass)
    for (std::int64_t y = 0; y < picture.height(); ++y) {
      std::uint8_t* row = rows + (passes == 1 ? 0 : y * step);
      png_read_row(reader.png, row, nullptr);
      if (pass == passes - 1) lay_upon_white(row, picture.width(), picture.row(y));
    }
  png_read_end(reader.png, nullptr);
  return true;
}

Picture decode_png(std::string_view file, const Extent& extent) {
  PngReader reader(file);
  const int passes = read_png_header(reader);
  if (passes == 0) reader.fail();
  const auto width = static_cast<std::int64_t>(png_get_image_width(reader.png, reader.info));
  const auto height = static_cast<std::int64_t>(png_get_image_height(reader.png, reader.info));
  if (Extent{height, width} != extent || png_get_rowbytes(reader.png, reader.info) != std::size_t(width) * 4)
    throw Error(ErrorKind::data, "a damaged PNG: its header changes");
  Picture picture(extent);
  const std::int64_t kept = passes == 1 ? 1 : height;
  const auto rows = std::make_unique<std::uint8_t[]>(kept * width * 4);
  if (!read_png_rows(reader, passes, rows.get(), picture)) reader.fail();
  return picture;
}

}  // namespace

const Format kPng = {is_png, png_header, decode_png};

}  // namespace hone::images
