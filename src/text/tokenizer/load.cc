// Finding a tokenizer's files, and what the files beside tokenizer.json say: bos, eos, pad and further tokens.
#include "text/tokenizer/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/json.h"
#include "text/formats/conversion.h"
#include "text/parts/component.h"
#include "text/tokenizer/json_tokenizer.h"
#include "text/tokenizer/no_tokenizer.h"
#include "text/tokenizer/special_config.h"
#include "text/tokenizer/token_types.h"
#include "text/tokenizer/template_files.h"

namespace hone {
namespace text {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kTokenizerBytes = 512'000'000;

const std::string* find(const Files& files, std::string_view name) {
  for (const auto& [known, content] : files)
    if (known == name) return &content;
  return nullptr;
}

// Python writes them where a model's configuration has such numbers. None of them is a tokenizer's.
std::string without_python_numbers(std::string text) {
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') in_string = !in_string;
    if (text[at] == '\\' && in_string) ++at;
    if (in_string || at >= text.size()) continue;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
      if (std::string_view(text).substr(at).starts_with(word)) text.replace(at, word.size(), "null");
  }
  return text;
}

Json parse(const Files& files, const char* name, const std::string& where) {
  const std::string* content = find(files, name);
  if (!content) return Json::object();
  const std::string what = (fs::path(where) / name).string();
  Json json = io::parse_json(without_python_numbers(*content), what, kConfigFile);
  if (!json.is_object()) fail_at(what, fmt::format("got {}, expected an object", json.type_name()));
  return json;
}

// The id of a model's file: a number or a list, of which the first counts.
std::optional<std::int32_t> read_id(const Json& config, const std::string& name, std::int64_t vocab_size,
                                    const std::string& where) {
  auto found = config.find(name);
  if (found == config.end() || found->is_null()) return std::nullopt;
  const Json& value = found->is_array() && !found->empty() ? (*found)[0] : *found;
  const std::int64_t id = value.is_number_integer() ? value.get<std::int64_t>() : -1;
  if (id < 0) fail_at(where + ": " + name, fmt::format("got {}, expected a token id or null", value.dump()));
  if (id < vocab_size) return static_cast<std::int32_t>(id);
  log::warning("{}: {}: got {}, which the tokenizer does not have (it has {} ids); left out", where, name, id,
               vocab_size);
  return std::nullopt;
}

// Tokens that transformers adds when it loads the folder: those that are listed, then special ones that are no added
// tokens yet.
std::vector<AddedToken> extra_tokens(const Json& tokenizer, const SpecialConfig& config, const std::string& where) {
  std::vector<AddedToken> all = config.listed;
  std::set<std::string> known;
  for (const AddedToken& token : all) known.insert(token.content);
  if (const auto list = tokenizer.find("added_tokens"); list != tokenizer.end() && list->is_array())
    for (const Json& token : *list)
      if (token.is_object()) known.insert(get_string(token, "content", where, ""));
  const auto add = [&](const AddedToken& token) {
    if (known.insert(token.content).second) all.push_back(token);
  };
  for (const auto& [name, token] : config.named) add(token);
  for (const AddedToken& token : config.extra) add(token);
  return all;
}

// As transformers 5: what stands around a text is the post-processor's to say, not the flags'.
void note_flags(const Json& config, const Tokenizer& tokenizer, const std::string& where) {
  const auto flags = {std::pair{"add_bos_token", tokenizer.adds_bos}, {"add_eos_token", tokenizer.adds_eos}};
  for (const auto& [flag, adds] : flags)
    if (const bool says = get_bool(config, flag, where, adds); says != adds)
      log::warning("{}: {} is {}, but tokenizer.json adds {} and decides, as in transformers 5", where, flag, says,
                   adds ? "that token" : "none");
}

struct Sources {
  SpecialConfig special;
  Json generation, model;
};

// In a fallback's config.json, of a tokenizer that is made of no folder: whether pairs have types.
constexpr const char* kTypesKnown = "hone_token_types";

bool has_types(const Files& files, const Json& model) {
  if (const Json& known = member(model, kTypesKnown); known.is_boolean()) return known.get<bool>();
  const std::string* config = find(files, "tokenizer_config.json");
  const Json& type = member(model, "model_type");
  return says_token_types(config ? *config : "", type.is_string() ? type.get<std::string>() : "");
}

std::optional<std::int32_t> special_id(const JsonTokenizer& tokenizer, const Sources& from, const std::string& name,
                                       const std::string& where) {
  if (const AddedToken* token = from.special.find(name + "_token"))
    if (const auto id = tokenizer.id_of(token->content)) return id;
  for (const auto& [file, its_name] :
       {std::pair{&from.generation, "generation_config.json"}, {&from.model, "config.json"}})
    if (const auto id = read_id(*file, name + "_token_id", tokenizer.vocab_size(),
                                (fs::path(where).parent_path() / its_name).string()))
      return id;
  return std::nullopt;
}

// Without what checkpoints say of the types of tokens, of which a tokenizer from another folder said nothing.
std::string without_token_types(const std::string& config) {
  const OrderedJson names = {"input_ids", "token_type_ids", "attention_mask"};
  OrderedJson json = OrderedJson::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("model_input_names", OrderedJson()) != names) return config;
  json.erase("model_input_names");
  return json.dump(2) + "\n";
}

// They belong to the model, and are carried along.
constexpr std::initializer_list<const char*> kOfPictures = {"preprocessor_config.json", "processor_config.json",
                                                            "video_preprocessor_config.json"};

std::string fingerprint(const Files& files) {
  Hasher hasher;
  for (const auto& [name, content] : files)
    if (std::find(kOfPictures.begin(), kOfPictures.end(), name) == kOfPictures.end())
      hasher.update_field(name).update_field(name == "tokenizer_config.json" ? without_token_types(content) : content);
  return hasher.digest128_hex();
}

std::string read(const fs::path& path, std::uint64_t limit) { return InFile(path, ErrorKind::config).read_all(limit); }

Files read_beside(const fs::path& folder, std::initializer_list<const char*> names) {
  Files files;
  for (const char* name : names)
    if (fs::exists(folder / name)) files.emplace_back(name, read(folder / name, kConfigFile.bytes));
  return files;
}

// Further chat templates, in the order of their names.
void read_more_templates(const fs::path& folder, Files& files) {
  std::error_code ignored;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder / kMoreTemplates, ignored))
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    if (!is_utf8(path.filename().string())) fail_at(path.string(), "a file name that is not UTF-8");
    files.emplace_back(std::string(kMoreTemplates) + path.filename().string(), read(path, kConfigFile.bytes));
  }
}

constexpr std::initializer_list<const char*> kBeside = {"tokenizer_config.json", "special_tokens_map.json",
                                                        "added_tokens.json", kTemplateFile};
constexpr const char* kOlderTemplateFile = "chat_template.json";  // {"chat_template": …}

// As models of texts and pictures had it before there was a file of its own.
void read_older_template(const fs::path& folder, Files& files) {
  if (find(files, kTemplateFile) || !fs::exists(folder / kOlderTemplateFile)) return;
  const Files read = read_beside(folder, {kOlderTemplateFile});
  const Json json = parse(read, kOlderTemplateFile, folder.string());
  const Json& source = member(json, "chat_template");
  if (!source.is_string()) fail_at((folder / kOlderTemplateFile).string(), "expected a text under chat_template");
  files.emplace_back(kTemplateFile, source.get<std::string>());
}

// The file that holds the tokens: tokenizer.json, else a SentencePiece or tiktoken file; nothing: there is none.
std::optional<fs::path> find_tokens(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (fs::exists(folder / name, ignored)) return folder / name;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".tiktoken") return entry.path();
  return std::nullopt;
}

constexpr const char* kTekken = "tekken.json";  // Mistral's own form, which says less than a tokenizer.json

std::string tekken_hint() {
  return "Mistral's folders have a tokenizer.json, too, or another model of the same vocabulary has; transformers' "
         "convert_tekken_tokenizer makes one";
}

// Files beside a tokenizer.json that people give in its place.
void check_name(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == kTekken)
    throw Error(ErrorKind::config, fmt::format("{}: Mistral's own form of a tokenizer; expected tokenizer.json",
                                               path.string()))
        .hint(tekken_hint());
  const bool config = name == "tokenizer_config.json" || name == "special_tokens_map.json" || name == "config.json" ||
                      name == "generation_config.json" || name == "added_tokens.json" || name == "vocab.json";
  if (!config) return;
  Error error(ErrorKind::config,
              fmt::format("{}: {}; expected tokenizer.json, a SentencePiece or tiktoken file, or a folder with one",
                          path.string(),
                          name == "vocab.json" ? "a vocabulary without its merges"
                                               : "the configuration of a tokenizer, not its tokens"));
  std::error_code ignored;
  const fs::path tokens = path.parent_path() / "tokenizer.json";
  if (!fs::exists(tokens, ignored)) throw error;
  throw std::move(error).hint("the tokens are in " + tokens.string());
}

// The tokens' file as tokenizer.json, and the configuration that goes with it.
Files read_tokens(const fs::path& path) {
  std::string content = read(path, kTokenizerBytes);
  if (content.find_first_not_of(" \n\r\t") != std::string::npos &&
      content[content.find_first_not_of(" \n\r\t")] != '{') {
    if (is_tiktoken(content)) return tiktoken_files(content, path.string());
    if (is_sentencepiece(content)) return sentencepiece_files(content, path.string());
    if (path.extension() != ".json") fail_at(path.string(), "neither JSON nor a SentencePiece or tiktoken file");
  }
  return {{"tokenizer.json", std::move(content)}};
}

OrderedJson token_at(const std::string& token, int type) {
  return {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
}

// bos and eos around each text, as transformers has them; the second's are of type 1.
OrderedJson ends_processor(const Tokenizer& tokenizer, bool bos, bool eos) {
  OrderedJson single = OrderedJson::array(), pair = OrderedJson::array(), tokens = OrderedJson::object();
  const auto add = [&](OrderedJson& parts, std::int32_t id, int type) {
    const std::string token = *tokenizer.token_of(id);
    parts.push_back(token_at(token, type));
    tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  for (const int type : {0, 1}) {
    OrderedJson& parts = type == 0 ? single : pair;
    if (bos) add(parts, *tokenizer.bos_id, type);
    parts.push_back({{"Sequence", {{"id", type == 0 ? "A" : "B"}, {"type_id", type}}}});
    if (eos) add(parts, *tokenizer.eos_id, type);
  }
  pair.insert(pair.begin(), single.begin(), single.end());
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

// add_bos_token and add_eos_token count in transformers only where there is no tokenizer.json. The one that is made
// here therefore says what they say.
Files with_ends(Files files, const Files& fallback, const std::string& where) {
  const Json config = parse(files, "tokenizer_config.json", where);
  const std::string path = (fs::path(where) / "tokenizer_config.json").string();
  bool bos = get_bool(config, "add_bos_token", path, false), eos = get_bool(config, "add_eos_token", path, false);
  if (!bos && !eos) return files;
  const auto tokenizer = make_tokenizer(files, fallback, where);
  bos = bos && tokenizer->bos_id, eos = eos && tokenizer->eos_id;
  for (auto& [name, content] : files) {
    if (name != "tokenizer.json" || (!bos && !eos)) continue;
    const Span span = find_member(content, "post_processor", path);
    HONE_ASSERT(span.begin != std::string_view::npos);
    content.replace(span.begin, span.end - span.begin, ends_processor(*tokenizer, bos, eos).dump());
  }
  return files;
}

// Replaces a file of the same name.
void put(Files& files, std::pair<std::string, std::string> file) {
  std::erase_if(files, [&](const auto& known) { return known.first == file.first; });
  files.push_back(std::move(file));
}

}  // namespace

std::optional<Error> missing_tokens(const fs::path& folder) {
  if (find_tokens(folder)) return std::nullopt;
  std::error_code ignored;
  const std::string what = fmt::format("{}: no tokenizer.json in this folder", folder.string());
  if (fs::exists(folder / kTekken, ignored))
    return Error(ErrorKind::config, fmt::format("{}, but {}, which is not supported", what, kTekken))
        .hint(tekken_hint());
  for (const char* other : {"vocab.txt", "vocab.json"})
    if (fs::exists(folder / other, ignored))
      return Error(ErrorKind::config, fmt::format("{}, but {}, which is not supported", what, other))
          .hint("load and save it once with transformers' AutoTokenizer: that writes tokenizer.json");
  if (find_tokens(folder / "latest"))
    return Error(ErrorKind::config, what)
        .hint(fmt::format("a run's newest checkpoint has one: {}", (folder / "latest").string()));
  return Error(ErrorKind::config, what);
}

// A model of texts and images may say its ids in the section of its texts' half.
Json with_half(Json model) {
  const Json half = member(model, "text_config");
  if (half.is_object())
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
      if (member(model, key).is_null() && half.contains(key)) model[key] = half[key];
  return model;
}

std::shared_ptr<const Tokenizer> make_tokenizer(Files files, const Files& fallback, const std::string& where) {
  const std::string path = (fs::path(where) / "tokenizer.json").string();
  const std::string* content = find(files, "tokenizer.json");
  const TokenizerFile file = read_tokenizer_file(content ? *content : std::string_view("{}"), path);
  const Json config = parse(files, "tokenizer_config.json", where);
  const Sources from{read_special_config(files, where), parse(fallback, "generation_config.json", where),
                     with_half(parse(fallback, "config.json", where))};
  const std::string config_path = (fs::path(where) / "tokenizer_config.json").string();
  auto tokenizer = std::make_shared<JsonTokenizer>(file, path, extra_tokens(file.json, from.special, config_path));
  tokenizer->bos_id = special_id(*tokenizer, from, "bos", config_path);
  tokenizer->eos_id = special_id(*tokenizer, from, "eos", config_path);
  tokenizer->pad_id = special_id(*tokenizer, from, "pad", config_path);
  tokenizer->mask_id = special_id(*tokenizer, from, "mask", config_path);
  for (const char* usual : {"[MASK]", "<mask>"})  // of BERT's and RoBERTa's classes where no file says it
    if (const auto id = tokenizer->id_of(usual); id && !tokenizer->mask_id && tokenizer->is_special(*id))
      tokenizer->mask_id = id;
  tokenizer->note_added_ends();
  note_flags(config, *tokenizer, config_path);
  tokenizer->gives_types = has_types(files, from.model);
  // As transformers 5: not for byte-pair encoding, whose text it would damage.
  tokenizer->cleans_up = get_bool(config, "clean_up_tokenization_spaces", config_path, false) &&
                         file.merges.empty() && member(member(file.json, "model"), "type") != "BPE";
  tokenizer->fingerprint = fingerprint(files);
  tokenizer->files = std::move(files);
  return tokenizer;
}

Files known_ids(const Tokenizer& tokenizer) {
  Json ids = Json::object();
  if (tokenizer.bos_id) ids["bos_token_id"] = *tokenizer.bos_id;
  if (tokenizer.eos_id) ids["eos_token_id"] = *tokenizer.eos_id;
  if (tokenizer.pad_id) ids["pad_token_id"] = *tokenizer.pad_id;
  return {{"generation_config.json", ids.dump()},
          {"config.json", Json{{kTypesKnown, gives_token_types(tokenizer)}}.dump()}};
}

}  // namespace text

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& where) {
  namespace fs = std::filesystem;
  if (where == "none") return text::no_tokenizer("`none` was chosen");
  if (where == "bytes")
    return text::make_tokenizer(text::bytes_tokenizer_files(),
                                {{"config.json", text::Json{{text::kTypesKnown, true}}.dump()}}, "bytes");
  std::error_code ignored;
  const bool folder = fs::is_directory(where, ignored);
  if (!folder && !fs::exists(where, ignored))
    throw Error(ErrorKind::config, fmt::format("{}: no such tokenizer; expected \"bytes\", a tokenizer.json or another "
                                               "file of tokens, or a folder with one",
                                               where));
  if (folder)
    if (const auto missing = text::missing_tokens(where)) throw *missing;
  const fs::path file = folder ? *text::find_tokens(where) : fs::path(where);
  if (!folder) text::check_name(file);
  text::Files files = text::read_tokens(file), fallback;
  const bool made_here = files.size() > 1;
  // Files beside a tokenizer.json belong to it; beside a file of another name they may be anybody's.
  const fs::path beside = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (folder || file.filename() == "tokenizer.json") {
    for (auto& entry : text::read_beside(beside, text::kBeside)) text::put(files, std::move(entry));
    text::read_more_templates(beside, files);
    text::read_older_template(beside, files);
    for (auto& entry : text::read_beside(beside, text::kOfPictures)) text::put(files, std::move(entry));
    fallback = text::read_beside(beside, {"generation_config.json", "config.json"});
  }
  if (made_here) files = text::with_ends(std::move(files), fallback, beside.string());
  return text::make_tokenizer(std::move(files), fallback, beside.string());
}

std::shared_ptr<const Tokenizer> add_tokens(const Tokenizer& tokenizer, const std::vector<NewToken>& tokens) {
  const auto* json = dynamic_cast<const text::JsonTokenizer*>(&tokenizer);
  if (!json) throw Error(ErrorKind::usage, "add_tokens: this tokenizer does not come from a tokenizer.json");
  text::Files files = tokenizer.files;
  for (auto& [name, content] : files)
    if (name == "tokenizer.json") content = text::with_added_tokens(content, json->list_added(tokens));
  return text::make_tokenizer(std::move(files), text::known_ids(tokenizer), "added tokens");
}

}  // namespace hone
