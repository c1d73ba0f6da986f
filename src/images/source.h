// Where the bytes of a picture come from: a file beside the data, a data: URL, or the data themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace hone::images {

// The bytes of the file that a field of a data set names: a path (relative to the data's folder),
// "data:image/…;base64,…" or {"bytes": …, "path": …} as in data sets with the feature Image (bytes: raw from Parquet,
// base64 in JSON; null: the path counts). At most kMaxBytes. Error(data): there is none, http:// and https:// (they are
// to be downloaded first).
std::string picture_bytes(const nlohmann::ordered_json& value, const std::filesystem::path& folder);

// Of a file as many bytes as extent_of() needs to know its picture's size: of most JPEGs the first ones, of others all.
// Error(data): it cannot be read.
std::string header_bytes(const std::filesystem::path& path);

// Of a field, for a message: a path as it is, others by what they are ("a data: URL of 1.4 MB").
std::string picture_name(const nlohmann::ordered_json& value);

inline constexpr std::uint64_t kMaxBytes = 256'000'000;

}  // namespace hone::images
