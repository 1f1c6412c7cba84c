mod documents;
mod pages;
mod templates;
