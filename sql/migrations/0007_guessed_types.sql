-- Whether rules guessed an entity's type, so that a type that a user or a model states replaces it. Until now rules hardly
-- gave any, and those that there are stay.
ALTER TABLE entity ADD COLUMN type_is_guess boolean NOT NULL DEFAULT false;
