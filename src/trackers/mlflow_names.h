// What MLflow calls things: URIs of folders, names of numbers, the lines of its meta.yaml.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::trackers {

// "mlruns", "/data/mlruns", "file:/data/mlruns", "file:///data/my%20runs"; nothing: it is of a server, of a database,
// or of no folder.
std::optional<std::filesystem::path> folder_of_uri(const std::string& uri);
std::string file_uri(const std::filesystem::path& absolute);

// As Hugging Face's Trainer gives names to MLflow: what is no letter, digit or one of _-. :/ is "_". Nor is a part
// between two slashes empty, "." or "..", which MLflow refuses; and no name is longer than it takes.
std::string mlflow_name(const std::string& name);
bool is_mlflow_id(std::string_view id);                             // of a run or an experiment
std::string cut_to_bytes(std::string_view text, std::size_t most);  // at a code point

// A file meta.yaml: one line for each of its entries in the order of their names, as MLflow writes them, or several
// where a text is long. Values are written as `to_value` gives them.
std::string meta_text(const std::map<std::string, std::string>& entries);
std::string meta_string(std::string_view text);  // in quotes
// The file with another value of one entry, and the others as they are.
std::string with_entry(const std::string& meta, const std::string& name, const std::string& value);
// The scalar at `name`; nothing: there is none, or the file cannot be read.
std::optional<std::string> entry_of(const std::string& meta, const std::string& name);

// A recipe as MLflow's parameters: "optimizer.learning_rate" and its text. Of a section without a type, that alone.
std::map<std::string, std::string> parameters_of(const std::string& recipe_yaml);

}  // namespace hone::trackers
