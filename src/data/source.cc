// Finds the kind of a data file and opens it; refuses pickles and other files that are no data.
#include "data/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/plugin.h"
#include "base/strings.h"
#include "data/template_variables.h"
#include "hone/registry.h"
#include "io/lines.h"
#include "io/pipe.h"

namespace hone::data {
namespace {

std::string extension_of(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  std::string extension = to_lower(name.extension().string());
  if (extension == ".gz" || extension == ".zst") extension = to_lower(name.stem().extension().string());
  return extension.empty() ? "" : extension.substr(1);
}

std::string source_of(const std::string& extension) {
  return extension == "ndjson" ? "jsonl" : extension == "txt" ? "text" : extension;
}

// The first bytes, decompressed.
std::string head_of(io::ByteReader& reader) {
  std::string head = reader.head(4096);
  if (head.starts_with("\xEF\xBB\xBF")) head.erase(0, 3);
  return head;
}

// Formats that are not data for us, by their first bytes, with what to do about it.
void refuse_foreign(const std::string& path, const std::string& head, const std::string& extension) {
  const auto refuse = [&](const std::string& fact, const std::string& advice) {
    throw Error(ErrorKind::data, fmt::format("{}: {}; {}", path, fact, kKinds)).hint(advice);
  };
  const bool pickle = head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
  if (pickle || extension == "pkl" || extension == "pickle" || extension == "pt" || extension == "pth")
    refuse("a pickle, which can run code and is never opened",
           "convert it where you trust it, for instance pandas.read_pickle(...).to_parquet(\"data.parquet\")");
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06"))
    refuse("a zip archive (a torch.save file is one, too)", "unpack it and give the files inside");
  if (head.starts_with("ARROW1") || extension == "arrow")
    refuse("an Arrow file", "save it as Parquet: datasets.load_from_disk(...).to_parquet(\"data.parquet\")");
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF"))
    refuse("UTF-16 text", fmt::format("convert it: iconv -f UTF-16 -t UTF-8 {}", path));
}

char first_printing(const std::string& head) {
  const std::size_t at = head.find_first_not_of(" \t\r\n");
  return at == std::string::npos ? '\0' : head[at];
}

// A file whose extension says nothing.
std::string kind_by_content(const std::string& path, const std::string& head) {
  if (head.starts_with("PAR1")) return "parquet";
  const char first = first_printing(head);
  if (first == '[') return "json";
  if (first == '{') return "jsonl";
  if (head.find('\0') != std::string::npos)
    throw Error(ErrorKind::data, fmt::format("{}: not a text file; {}", path, kKinds));
  return "text";
}

}  // namespace

bool has_data_extension(const std::string& path) {
  return registries().sources.find(source_of(extension_of(path))) != nullptr;
}

std::string kind_of(const std::string& path) {
  const std::string extension = extension_of(path);
  if (io::is_pipe(path))
    return registries().sources.find(source_of(extension)) != nullptr ? source_of(extension) : "jsonl";
  io::ByteReader reader(path);
  const std::string head = head_of(reader);
  refuse_foreign(path, head, extension);
  const std::string kind = source_of(extension);
  // Either name is used for either form: one array, or one value per line.
  if (kind == "json" || kind == "jsonl") return first_printing(head) == '[' ? "json" : "jsonl";
  return registries().sources.find(kind) != nullptr ? kind : kind_by_content(path, head);
}

std::string kind_by_content(io::ByteReader& opened) {
  const std::string path = opened.path().string(), head = head_of(opened);
  refuse_foreign(path, head, "");
  return kind_by_content(path, head);
}

bool is_file_format(const std::string& source) {
  constexpr const char* kOurs[] = {"jsonl", "json", "text", "csv", "tsv", "parquet"};
  return std::find(std::begin(kOurs), std::end(kOurs), source) != std::end(kOurs);
}

std::unique_ptr<Source> open_source(const SourceFile& file, const config::Choice<Source>& source) {
  const std::string kind = source.type.empty() ? kind_of(file.path) : source.type;
  if (file.header && (kind == "json" || kind == "jsonl" || kind == "text" || kind == "parquet"))
    throw Error(ErrorKind::config,
                fmt::format("{}: header: only .csv and .tsv have a line that names columns", file.path));
  if (kind == "parquet" && io::is_pipe(file.path))
    throw Error(ErrorKind::data, file.path + ": Parquet in a pipe; expected a file, as its end is read first");
  const auto& sources = registries().sources;
  if (sources.find(kind) == nullptr)
    throw Error(ErrorKind::bug, fmt::format("{}: no source is registered for {}", file.path, kind));
  return with_variables(sources.make(config::Choice<Source>{kind, source.options}, file), file.chat_template_kwargs);
}

bool next_of(Source& opened, const config::Choice<Source>& source, Record& record) {
  if (source.type.empty() || is_file_format(source.type)) return opened.next(record);  // which name file and line
  return in_plugin([&] { return "source " + source.type + ", next"; }, [&] { return opened.next(record); });
}

SourceFile source_file(const DataFile& file, RecordKind records, ProblemType problem_type, bool pictures) {
  SourceFile made{file.path, file.columns, file.header, file.ignore, records, problem_type};
  made.pictures = pictures;
  made.image_folder = file.image_folder;
  made.chat_template_kwargs = variables_text(file.chat_template_kwargs);
  return made;
}

}  // namespace hone::data
