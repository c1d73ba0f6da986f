// Reads pictures' files, and takes them out of what data sets hold.
#include "images/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "base/env.h"
#include "base/strings.h"
#include "hone/error.h"
#include "images/picture.h"
#include "text/formats/base64.h"

namespace hone::images {
namespace {

using json = nlohmann::ordered_json;

bool is_url(std::string_view text) { return text.starts_with("data:"); }

std::string from_base64(std::string_view text, const char* what) {
  std::string whole(text);
  std::erase_if(whole, [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; });
  while (whole.size() % 4 != 0) whole += '=';
  if (auto bytes = text::from_base64(whole)) return std::move(*bytes);
  throw Error(ErrorKind::data, fmt::format("{}: not base64", what));
}

std::string from_data_url(std::string_view url) {
  const std::size_t comma = url.find(',');
  if (!url.starts_with("data:image/") || comma == url.npos || !url.substr(0, comma).ends_with(";base64"))
    throw Error(ErrorKind::data, fmt::format("a data: URL: got {}, expected data:image/…;base64,…",
                                             hone::quoted(url.substr(0, std::min<std::size_t>(comma, 40)))));
  return from_base64(url.substr(comma + 1), "a data: URL");
}

// What a data set in JSON holds is text; raw bytes begin as the files of pictures do, which base64 never does.
std::string from_field(const std::string& bytes) {
  for (const std::string_view begin : {std::string_view("\xff\xd8"), std::string_view("\x89PNG"),
                                       std::string_view("RIFF\0", 4), std::string_view("GIF8")})
    if (bytes.starts_with(begin)) return bytes;
  const auto is_text = [](unsigned char c) { return c == '\n' || c == '\r' || (c >= ' ' && c < 127); };
  return std::all_of(bytes.begin(), bytes.end(), is_text) ? from_base64(bytes, "bytes") : bytes;
}

std::string from_path(std::string text, const std::filesystem::path& folder) {
  if (text.starts_with("http://") || text.starts_with("https://"))
    throw Error(ErrorKind::data, fmt::format("{}: got a web address, expected a file", hone::quoted(text)))
        .hint("download the pictures first and name the files");
  constexpr std::string_view kFile = "file://";
  if (text.starts_with(kFile)) text.erase(0, kFile.size());
  if (text.empty() || text.find('\0') != text.npos)
    throw Error(ErrorKind::data, "a picture's path: got " + hone::quoted(text) + ", expected the name of a file");
  return InFile(folder / std::filesystem::path(text), ErrorKind::data).read_all(kMaxBytes);
}

std::string from_text(const std::string& text, const std::filesystem::path& folder) {
  return is_url(text) ? from_data_url(text) : from_path(text, folder);
}

// The entry, where it is there and not null.
const std::string* text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  if (!found->is_string())
    throw Error(ErrorKind::data, fmt::format("{}: got {}, expected a string", key, found->type_name()));
  return &found->get_ref<const std::string&>();
}

void check_keys(const json& object) {
  for (const auto& [key, value] : object.items())
    if (key != "bytes" && key != "path")
      throw Error(ErrorKind::data,
                  fmt::format("a picture: got the key {}, expected bytes and path", hone::quoted(key)));
}

// A header that goes on behind these bytes, or is damaged, is to be read with all of the file.
bool is_jpeg_header(std::string_view head) {
  if (!head.starts_with("\xff\xd8\xff")) return false;
  try {
    extent_of(head);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;
    return false;
  }
}

}  // namespace

std::string picture_bytes(const json& value, const std::filesystem::path& folder) {
  if (value.is_string()) return from_text(value.get_ref<const std::string&>(), folder);
  if (!value.is_object())
    throw Error(ErrorKind::data,
                fmt::format("a picture: got {}, expected a path, a data: URL or bytes and path", value.type_name()));
  check_keys(value);
  if (const std::string* bytes = text_of(value, "bytes")) {
    if (bytes->size() > kMaxBytes)
      throw Error(ErrorKind::data, fmt::format("a picture: got {}, expected at most {}", human_size(bytes->size()),
                                               human_size(kMaxBytes)));
    return from_field(*bytes);
  }
  if (const std::string* path = text_of(value, "path")) return from_text(*path, folder);
  throw Error(ErrorKind::data, "a picture: got neither bytes nor a path");
}

std::string header_bytes(const std::filesystem::path& path) {
  constexpr std::size_t kHead = 65'536;
  const InFile file(path, ErrorKind::data);
  if (file.size() > kHead) {
    std::string head(kHead, '\0');
    file.read(0, std::as_writable_bytes(std::span(head)));
    // The size and the orientation stand before the picture; in files of other kinds the latter may stand behind it.
    if (is_jpeg_header(head)) return head;
  }
  return file.read_all(kMaxBytes);
}

std::string picture_name(const json& value) {
  const auto named = [](const std::string& text) {
    return is_url(text) ? fmt::format("a data: URL of {}", human_size(text.size())) : escape_for_terminal(text);
  };
  if (value.is_string()) return named(value.get_ref<const std::string&>());
  if (!value.is_object()) return fmt::format("a picture that is {}", value.type_name());
  for (const char* key : {"path", "bytes"})
    if (const auto found = value.find(key); found != value.end() && found->is_string()) {
      const std::string& text = found->get_ref<const std::string&>();
      return *key == 'p' ? named(text) : fmt::format("a picture of {}", human_size(text.size()));
    }
  return "a picture without bytes and path";
}

}  // namespace hone::images
