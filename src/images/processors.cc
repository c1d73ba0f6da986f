// Which file of a model's folder describes its processor, and which type that is.
#include "images/processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/env.h"
#include "base/strings.h"
#include "hone/error.h"
#include "images/processors.h"

namespace hone::images {
namespace {

using config::Node;

constexpr const char *kProcessor = "processor_config.json", *kPreprocessor = "preprocessor_config.json";
constexpr const char* kFiles[] = {kPreprocessor, kProcessor, "video_preprocessor_config.json"};
constexpr std::uint64_t kMaxFile = 16'000'000;

struct Known {
  std::string_view type;
  MakeProcessor make;
  SayAmongWords among_words = nullptr;
};
constexpr Known kTypes[] = {{"CLIPImageProcessor", make_fixed},
                            {"Gemma3ImageProcessor", make_gemma3},
                            {"Gemma4ImageProcessor", make_gemma4},
                            {"Gemma4UnifiedImageProcessor", make_gemma4_unified},
                            {"Glm46VImageProcessor", make_qwen2_vl},
                            {"Glm4vImageProcessor", make_qwen2_vl},
                            {"GotOcr2ImageProcessor", make_got_ocr2, got_ocr2_among_words},
                            {"Idefics3ImageProcessor", make_idefics3},
                            {"Lfm2VlImageProcessor", make_lfm2_vl, lfm2_vl_among_words},
                            {"LlavaImageProcessor", make_fixed},
                            {"LlavaNextImageProcessor", make_llava_next},
                            {"PixtralImageProcessor", make_pixtral, pixtral_among_words},
                            {"Qwen2VLImageProcessor", make_qwen2_vl},
                            {"SiglipImageProcessor", make_fixed},
                            {"SmolVLMImageProcessor", make_idefics3}};

// Keys that say nothing of what a picture becomes: what made the file, how the reference is called, films, and what the
// model's own configuration says as well.
constexpr std::array kHarmless = std::to_array<std::string_view>(
    {"_valid_processor_keys", "auto_map", "device", "disable_grouping", "feature_extractor_type",
     "image_processor_type", "image_seq_len", "image_seq_length", "image_token_id", "input_data_format",
     "processor_class", "return_tensors", "use_fast", "use_image_special_tokens", "video_sampling"});

struct Written {
  std::string file;
  Node keys;
  Node of_words = Node::map();  // processor_config.json, which may be another file
};

std::optional<Node> read_config(const Folder& folder, const char* name) {
  const auto text = folder.maybe_read_file(name, kMaxFile);
  if (!text) return std::nullopt;
  const std::string file = (folder.path() / name).string();
  Problems problems;
  Node node = config::parse_json(*text, file, problems);
  problems.raise(file, ErrorKind::checkpoint);
  if (!node.is_map()) throw Error(ErrorKind::checkpoint, file + ": expected an object of keys");
  return node;
}

std::optional<Written> find_keys(const std::filesystem::path& path) {
  const Folder folder = Env::process().open_folder(path);
  const Node of_words = read_config(folder, kProcessor).value_or(Node::map());
  if (const Node* keys = of_words.find("image_processor"); keys && keys->is_map())
    return Written{(path / kProcessor).string(), *keys, of_words};
  if (auto keys = read_config(folder, kPreprocessor))
    return Written{(path / kPreprocessor).string(), std::move(*keys), of_words};
  return std::nullopt;
}

std::string type_in(const Node& keys) {
  const auto text = [&](const char* key) {
    const Node* node = keys.find(key);
    return node && node->kind() == Node::Kind::scalar ? node->text() : std::string();
  };
  std::string type = text("image_processor_type");
  if (type.empty()) type = replace_all(text("feature_extractor_type"), "FeatureExtractor", "ImageProcessor");
  for (const std::string_view end : {"Fast", "Pil"})
    if (type.ends_with(end)) type.erase(type.size() - end.size());
  return type;
}

[[noreturn]] void refuse_type(const std::string& file, const std::string& type) {
  std::vector<std::string> names;
  for (const Known& one : kTypes) names.emplace_back(one.type);
  const std::string got = type.empty() ? "none" : hone::quoted(type);
  Error error(ErrorKind::checkpoint,
              fmt::format("{}: image_processor_type: got {}, expected one of {}", file, got, join(names, ", ")));
  const std::string near = nearest(type, names);
  if (near.empty()) throw error;
  throw std::move(error).hint("did you mean " + near + "?");
}

}  // namespace

std::unique_ptr<const Processor> open_processor(const std::filesystem::path& folder, Use use) {
  const std::optional<Written> written = find_keys(folder);
  if (!written)
    throw Error(ErrorKind::checkpoint, fmt::format("{}: no {} and no {} that says what becomes of a picture",
                                                   folder.string(), kPreprocessor, kProcessor))
        .hint("copy it from the folder that the model came in");
  const std::string type = type_in(written->keys);
  const auto* known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Known& one) { return one.type == type; });
  if (known == std::end(kTypes)) refuse_type(written->file, type);
  Node keys = Node::map({}, written->keys.mark());
  for (const auto& [key, value] : written->keys.entries())
    if (!value.is_null() && std::find(kHarmless.begin(), kHarmless.end(), key) == kHarmless.end())
      keys.at_or_add(key) = value;
  Problems problems;
  if (use == Use::among_words && known->among_words) keys = known->among_words(keys, written->of_words, problems);
  auto made = known->make(type, keys, problems);
  problems.raise(written->file, ErrorKind::checkpoint);
  return made;
}

bool has_processor(const std::filesystem::path& folder) { return find_keys(folder).has_value(); }

std::map<std::string, std::string> processor_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  const Folder opened = Env::process().open_folder(folder);
  for (const char* name : kFiles)
    if (auto content = opened.maybe_read_file(name, kMaxFile)) files[name] = std::move(*content);
  return files;
}

}  // namespace hone::images
