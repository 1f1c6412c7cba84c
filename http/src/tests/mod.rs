mod published;
