// Finding a tokenizer's files, and what the files beside tokenizer.json say: bos, eos, pad and further tokens.
#include "text/tokenizer/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/json.h"
#include "text/formats/conversion.h"
#include "text/parts/component.h"
#include "text/tokenizer/json_tokenizer.h"
#include "text/tokenizer/no_tokenizer.h"
#include "text/tokenizer/template_files.h"

namespace hone {
namespace text {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kTokenizerBytes = 512'000'000;
constexpr io::JsonLimits kConfigFile{16'000'000, 100, ErrorKind::config};

const std::string* find(const Files& files, std::string_view name) {
  for (const auto& [known, content] : files)
    if (known == name) return &content;
  return nullptr;
}

Json parse(const Files& files, const char* name, const std::string& where) {
  const std::string* content = find(files, name);
  if (!content) return Json::object();
  const std::string what = (fs::path(where) / name).string();
  Json json = io::parse_json(*content, what, kConfigFile);
  if (!json.is_object()) fail_at(what, fmt::format("got {}, expected an object", json.type_name()));
  return json;
}

// A token as tokenizer_config.json has it: "<s>" or {"content": "<s>", ...}; null and absent give nothing.
std::optional<AddedToken> read_token(const Json& config, const std::string& name, const std::string& where) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return std::nullopt;
  AddedToken token;
  if (found->is_object())
    token = read_added_token(*found, where + ": " + name);
  else if (found->is_string())
    token.content = found->get<std::string>(), token.normalized = false;
  else
    fail_at(where + ": " + name,
            fmt::format("got {}, expected a string or an object with content", found->type_name()));
  token.special = true;
  token.id = -1;
  return token;
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

// Tokens that transformers adds when it loads the folder: all of added_tokens_decoder, then named special tokens that
// are no added tokens yet.
std::vector<AddedToken> extra_tokens(const Json& tokenizer, const Json& config, const std::string& where) {
  std::map<std::int64_t, AddedToken> by_id;
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder != config.end() && decoder->is_object())
    for (const auto& [id, token] : decoder->items()) {
      const auto number = parse_int(id);
      if (!number || *number < 0 || *number >= kMaxId)
        fail_at(where + ": added_tokens_decoder", fmt::format("got the id {}", hone::quoted(id)));
      AddedToken added = read_added_token(token, where + ": added_tokens_decoder." + id);
      added.id = *number;
      by_id[*number] = std::move(added);
    }
  std::vector<AddedToken> extra;
  std::vector<std::string> known;
  for (auto& [id, token] : by_id) {
    known.push_back(token.content);
    extra.push_back(std::move(token));
  }
  if (const auto list = tokenizer.find("added_tokens"); list != tokenizer.end() && list->is_array())
    for (const Json& token : *list)
      if (token.is_object()) known.push_back(get_string(token, "content", where, ""));
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    auto token = read_token(config, name, where);
    if (!token || std::find(known.begin(), known.end(), token->content) != known.end()) continue;
    known.push_back(token->content);
    extra.push_back(std::move(*token));
  }
  return extra;
}

struct Sources {
  Json config, special_tokens, generation, model;
};

std::optional<std::int32_t> special_id(const JsonTokenizer& tokenizer, const Sources& from, const std::string& name,
                                       const std::string& where) {
  for (const Json* file : {&from.config, &from.special_tokens})
    if (const auto token = read_token(*file, name + "_token", where))
      if (const auto id = tokenizer.id_of(token->content)) return id;
  for (const auto& [file, its_name] :
       {std::pair{&from.generation, "generation_config.json"}, {&from.model, "config.json"}})
    if (const auto id = read_id(*file, name + "_token_id", tokenizer.vocab_size(),
                                (fs::path(where).parent_path() / its_name).string()))
      return id;
  return std::nullopt;
}

std::string fingerprint(const Files& files) {
  Hasher hasher;
  for (const auto& [name, content] : files) hasher.update_field(name).update_field(content);
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
                                                        kTemplateFile};

// The file that holds the tokens: tokenizer.json, else a SentencePiece or tiktoken file; nothing: there is none.
std::optional<fs::path> find_tokens(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (fs::exists(folder / name, ignored)) return folder / name;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".tiktoken") return entry.path();
  return std::nullopt;
}

// Files beside a tokenizer.json that people give in its place.
void check_name(const fs::path& path) {
  const std::string name = path.filename().string();
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
  for (const char* other : {"vocab.txt", "vocab.json"})
    if (fs::exists(folder / other, ignored))
      return Error(ErrorKind::config, fmt::format("{}, but {}, which is not supported", what, other))
          .hint("load and save it once with transformers' AutoTokenizer: that writes tokenizer.json");
  if (find_tokens(folder / "latest"))
    return Error(ErrorKind::config, what)
        .hint(fmt::format("a run's newest checkpoint has one: {}", (folder / "latest").string()));
  return Error(ErrorKind::config, what);
}

std::shared_ptr<const Tokenizer> make_tokenizer(Files files, const Files& fallback, const std::string& where) {
  const std::string path = (fs::path(where) / "tokenizer.json").string();
  const std::string* content = find(files, "tokenizer.json");
  const TokenizerFile file = read_tokenizer_file(content ? *content : std::string_view("{}"), path);
  const Sources from{parse(files, "tokenizer_config.json", where), parse(files, "special_tokens_map.json", where),
                     parse(fallback, "generation_config.json", where), parse(fallback, "config.json", where)};
  const std::string config_path = (fs::path(where) / "tokenizer_config.json").string();
  auto tokenizer = std::make_shared<JsonTokenizer>(file, path, extra_tokens(file.json, from.config, config_path));
  tokenizer->bos_id = special_id(*tokenizer, from, "bos", config_path);
  tokenizer->eos_id = special_id(*tokenizer, from, "eos", config_path);
  tokenizer->pad_id = special_id(*tokenizer, from, "pad", config_path);
  // As transformers 5: either flag in tokenizer_config.json replaces what the post-processor puts around a text.
  if (from.config.contains("add_bos_token") || from.config.contains("add_eos_token"))
    tokenizer->set_ends(get_bool(from.config, "add_bos_token", config_path, false),
                        get_bool(from.config, "add_eos_token", config_path, false));
  tokenizer->note_added_ends();
  // As transformers 5: not for byte-pair encoding, whose text it would damage.
  tokenizer->cleans_up = get_bool(from.config, "clean_up_tokenization_spaces", config_path, false) &&
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
  return {{"generation_config.json", ids.dump()}};
}

}  // namespace text

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& where) {
  namespace fs = std::filesystem;
  if (where == "none") return text::no_tokenizer("`none` was chosen");
  if (where == "bytes") return text::make_tokenizer(text::bytes_tokenizer_files(), {}, "bytes");
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
  // Files beside a tokenizer.json belong to it; beside a file of another name they may be anybody's.
  const fs::path beside = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (folder || file.filename() == "tokenizer.json") {
    for (auto& entry : text::read_beside(beside, text::kBeside)) text::put(files, std::move(entry));
    text::read_more_templates(beside, files);
    fallback = text::read_beside(beside, {"generation_config.json", "config.json"});
  }
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
