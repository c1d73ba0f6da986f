// Pictures in records: from the forms that data sets have to {"type": "image"} in messages, with the files in order.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/place.h"
#include "data/token_store.h"
#include "hone/pictures.h"
#include "hone/text.h"
#include "text/chat/chat_template.h"

namespace hone::data {

// That the paths of a file's pictures start from. given: what the recipe says; "": the file's own.
std::filesystem::path picture_folder(const std::string& file, const std::string& given);

// A part of a message that stands for a picture which is there (text/chat/chat_printed.h).
nlohmann::ordered_json image_part();

// What a value says: a path, a data: URL, or {"bytes": …, "path": …}. folder: that paths start from.
PictureFile picture_of(const nlohmann::ordered_json& value, const std::filesystem::path& folder,
                       const FieldPlace& where);

// Of a record's own field: one, or a list of them.
std::vector<PictureFile> pictures_of(const nlohmann::ordered_json& value, const std::filesystem::path& folder,
                                     const FieldPlace& where);

// Makes the parts of messages those that chat templates write, {"type": "image"} and {"type": "text", "text": …}, and
// returns the pictures in the order of their places. A part may have its picture with it (image, url, path, base64, or
// OpenAI's image_url); others take the next one of `field`, the record's own. Where texts have <image> in them and the
// record has pictures, that is such a part, as LLaVA's data have it; where nothing says where they belong, they come
// before the first message of the user's. Throws Error(data): more places than pictures, or fewer; sound or video.
std::vector<PictureFile> place_pictures(nlohmann::ordered_json& messages, std::vector<PictureFile> field,
                                        const std::filesystem::path& folder, const Place& place);

// For templates that write parts: each text of a message as a list of one part. Others stay as they are.
std::string with_text_parts(const std::string& messages);

// A conversation as the template of a model that reads pictures takes it: with_text_parts(), where it writes parts and
// takes nothing else.
Conversation for_template(Conversation chat, const text::ChatTemplate& chat_template, bool reads_pictures);

// A text's tokens; null: there are none of these.
struct PlacedTokens {
  std::vector<std::int32_t>& ids;
  std::vector<std::int32_t>* labels = nullptr;
  std::vector<std::size_t>* seams = nullptr;
};
// What reads pictures, and the tokenizer of what stands between their tiles.
struct PlaceWords {
  const PictureReader& reader;
  const Tokenizer& tokenizer;
};
// How long each of a text's places for pictures becomes, with the words that go with it, none of which is learnt: ids
// and labels are changed, and seams moved. Throws Error(data) where there are other places than pictures, or tokens
// that stand for films or sounds.
std::vector<PlacedPicture> widen_places(PlacedTokens tokens, const std::vector<PictureFile>& pictures,
                                        const PlaceWords& words, const std::string& place);

// As documents have them. place: whose they are, for messages.
std::vector<DocPicture> doc_pictures(std::vector<PlacedPicture> placed,
                                     const std::shared_ptr<const PictureReader>& reader, const std::string& place);

// That pictures which are no more than named are still there: of tokens that were kept, whose pictures nobody has
// looked at since. Throws Error(data) that names the first record of one that is not.
void check_still_there(const TokenStore& store, const std::string& path);

}  // namespace hone::data
