// WebP by libwebp's decoder.
#include <fmt/format.h>
#include <webp/decode.h>

#include <cstring>
#include <memory>

#include "hone/error.h"
#include "images/formats.h"
#include "images/orientation.h"

namespace hone::images {
namespace {

bool is_webp(std::string_view file) {
  return file.size() >= 12 && file.starts_with("RIFF") && file.substr(8, 4) == "WEBP";
}

const std::uint8_t* bytes_of(std::string_view file) { return reinterpret_cast<const std::uint8_t*>(file.data()); }

// The data of the first chunk of that name; nothing where the file ends before it.
std::string_view webp_chunk(std::string_view file, std::string_view wanted) {
  for (file.remove_prefix(12); file.size() >= 8;) {
    std::uint64_t length = 0;
    for (int i = 3; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(file[4 + i]);
    const std::string_view name = file.substr(0, 4);
    file.remove_prefix(8);
    if (length > file.size()) break;
    if (name == wanted) return file.substr(0, length);
    file.remove_prefix(std::min<std::uint64_t>(length + length % 2, file.size()));
  }
  return {};
}

const char* webp_fact(int status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "the file ends too soon";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "of a kind that the library does not know";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "no memory to read it";
    default:
      return "its data are not such as a picture has";
  }
}

[[noreturn]] void fail_webp(int status) {
  throw Error(ErrorKind::data, fmt::format("a damaged WebP: {}", webp_fact(status)));
}

WebPBitstreamFeatures features_of(std::string_view file) {
  WebPBitstreamFeatures features;
  const int status = WebPGetFeatures(bytes_of(file), file.size(), &features);
  if (status != VP8_STATUS_OK) fail_webp(status);
  if (features.has_animation)
    throw Error(ErrorKind::data, "an animated WebP; expected a still picture").hint("take one of its pictures");
  return features;
}

Header webp_header(std::string_view file) {
  const WebPBitstreamFeatures features = features_of(file);
  return {{features.height, features.width}, orientation_of(webp_chunk(file, "EXIF"), webp_chunk(file, "XMP "))};
}

void decode_into(std::string_view file, WEBP_CSP_MODE mode, std::uint8_t* to, std::int64_t step, std::int64_t rows) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) throw Error(ErrorKind::data, "a WebP: the library is of another version");
  config.output.colorspace = mode;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {to, static_cast<int>(step), static_cast<std::size_t>(step * rows)};
  const int status = WebPDecode(bytes_of(file), file.size(), &config);
  if (status != VP8_STATUS_OK) fail_webp(status);
}

Picture decode_webp(std::string_view file, const Extent& extent) {
  Picture picture(extent);
  if (!features_of(file).has_alpha) {
    decode_into(file, MODE_RGB, picture.row(0), extent.width * 3, extent.height);
    return picture;
  }
  const auto layered = std::make_unique_for_overwrite<std::uint8_t[]>(extent.pixels() * 4);
  decode_into(file, MODE_RGBA, layered.get(), extent.width * 4, extent.height);
  lay_upon_white(layered.get(), extent.pixels(), picture.row(0));
  return picture;
}

}  // namespace

const Format kWebp = {is_webp, webp_header, decode_webp};

}  // namespace hone::images
